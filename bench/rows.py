# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the report while they are measured: contestants take turns in short slices.

A machine may change its speed by a factor of three within a second, so what is compared is measured in slices that
follow each other within a fraction of one, and every ratio is one of a slice and its neighbour. Many short slices say
more than few long ones: medians leave out the pairs that a change fell between.
"""

from contestants import Failure

SLICES = 3  # of a repetition, where processors' distance matters


class Row:
    """One line of the report: the same quantity of several contestants, one sample per slice."""

    def __init__(self, suite, label, unit, better, sources, slices=1):
        self.suite = suite
        self.label = label
        self.unit = unit
        self.better = better
        self.sources = sources  # contestant -> function giving one number
        self.slices = slices    # of a repetition
        self.samples = {name: [] for name in sources}
        self.errors = {}
        self.backwards = False

    def measure_slice(self):
        """Each once; the order turns round each time, so that nobody is always behind the same one."""
        order = list(self.sources.items())
        for name, source in reversed(order) if self.backwards else order:
            if name in self.errors:
                continue
            try:
                self.samples[name].append(source())
            except Failure as failure:
                self.errors[name] = str(failure)
        self.backwards = not self.backwards

    def measure_once(self):
        """A repetition."""
        for _ in range(self.slices):
            self.measure_slice()

    def as_dict(self):
        return {"suite": self.suite, "label": self.label, "unit": self.unit, "better": self.better,
                "samples": self.samples, "errors": self.errors}


class Shared:
    """Runs of one program that several rows take their numbers from: the row that is measured first has it run."""

    def __init__(self, run):
        self.run = run    # a function giving a dictionary
        self.found = []   # what each run gave: a dictionary or a Failure

    def value(self, pick):
        """A source: `pick` is a key of the dictionary or a function of it."""
        taken = 0

        def measure():
            nonlocal taken
            if taken == len(self.found):
                try:
                    self.found.append(self.run())
                except Failure as failure:
                    self.found.append(failure)
            found = self.found[taken]
            taken += 1
            if isinstance(found, Failure):
                raise found
            return pick(found) if callable(pick) else found[pick]
        return measure


def ratio_of(above, below):
    """A source: what two sources give, one right after the other, now this one first and now that one."""
    backwards = False

    def measure():
        nonlocal backwards
        backwards = not backwards
        if backwards:
            upper = above()
            return upper / below()
        lower = below()
        return above() / lower
    return measure
