# SPDX-License-Identifier: BSD-3-Clause
"""What build.sh makes the wheel with: the extension module and the libraries are built already."""

import os

from setuptools import Distribution, setup


class Built(Distribution):
    """Makes the wheel one for this interpreter and this processor."""

    def has_ext_modules(self):
        return True


with open("README.md", encoding="utf-8") as readme:
    DESCRIPTION = readme.read()

setup(
    name="causeway",
    version=os.environ["CAUSEWAY_VERSION"],
    description="Communication between processes through UCP, for asyncio",
    long_description=DESCRIPTION,
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    packages=["causeway"],
    package_data={"causeway": ["py.typed", "_core.pyi", "_core.*.so", "lib/*"]},
    python_requires=">=3.10",
    zip_safe=False,
    distclass=Built,
)
