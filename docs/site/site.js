/* SPDX-License-Identifier: BSD-3-Clause */
"use strict";

/* Search in the index that the pages bring along, and the choice between dark and light. */
(function () {
    const root = document.documentElement, field = document.getElementById("search");
    const results = document.getElementById("results"), limit = 25;

    function theme(name) {
        if (name) {
            root.dataset.theme = name;
        }
    }

    function isDark() {
        return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    }

    /* Pages that are opened from a disk may have no storage. */
    function remembered(name) {
        try {
            if (name) {
                localStorage.setItem("theme", name);
            }
            return localStorage.getItem("theme");
        } catch (error) {
            return null;
        }
    }

    function score(entry, words) {
        const title = (entry[1] + " " + entry[2]).toLowerCase(), text = entry[3].toLowerCase();
        let sum = 0;

        for (const word of words) {
            const count = text.split(word).length - 1;
            if (count === 0 && !title.includes(word)) {
                return 0;
            }
            sum += Math.min(count, 5) + (title.includes(word) ? 20 : 0);
        }
        return sum;
    }

    function around(text, word) {
        const at = Math.max(text.toLowerCase().indexOf(word) - 60, 0);

        return (at > 0 ? "... " : "") + text.slice(at, at + 180) + " ...";
    }

    function search() {
        const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        const found = [];

        results.replaceChildren();
        results.hidden = words.length === 0;
        if (results.hidden) {
            return;
        }
        for (const entry of window.siteIndex || []) {
            const points = score(entry, words);
            if (points > 0) {
                found.push([points, entry]);
            }
        }
        found.sort((a, b) => b[0] - a[0]);
        for (const [, entry] of found.slice(0, limit)) {
            const link = document.createElement("a"), text = document.createElement("p");
            link.href = entry[0];
            link.textContent = entry[1] === entry[2] ? entry[1] : entry[1] + ": " + entry[2];
            text.textContent = around(entry[3], words[0]);
            results.append(link, text);
        }
        if (found.length === 0) {
            results.textContent = "Nothing has all of these words.";
        }
    }

    theme(remembered());
    document.getElementById("theme").addEventListener("click", () => {
        theme(isDark() ? "light" : "dark");
        remembered(root.dataset.theme);
    });
    field.addEventListener("input", search);
    document.addEventListener("keydown", (event) => {
        if (event.key === "Escape") {
            field.value = "";
            search();
        } else if (event.key === "/" && document.activeElement !== field) {
            event.preventDefault();
            field.focus();
        }
    });
    results.addEventListener("click", () => { results.hidden = true; });
    const asked = new URLSearchParams(location.search).get("q");
    if (asked) {
        field.value = asked;
        search();
    }
})();
