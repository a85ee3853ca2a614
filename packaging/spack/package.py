# SPDX-License-Identifier: BSD-3-Clause
"""Recipe for Spack: lay it into the directory packages/causeway of a repository of recipes."""

from spack.package import *


class Causeway(CMakePackage):
    """Communication between processes through UCP, in place of UCX: the same names, structures and behaviour."""

    homepage = "https://causeway.invalid/"
    url = "https://causeway.invalid/causeway-1.22.0.tar.gz"

    license("BSD-3-Clause")

    # A checkout is built by `spack dev-build causeway@main`; a release names its checksum here.
    version("main", branch="main", git="https://causeway.invalid/causeway.git")

    provides("ucx@1.22")

    variant("tools", default=True, description="Command-line tools: ucx_info, ucx_perftest")

    depends_on("c", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3:", type="build", when="+tools")

    generator("ninja")

    conflicts("platform=darwin", msg="Causeway is for Linux")
    conflicts("platform=windows", msg="Causeway is for Linux")

    def cmake_args(self):
        return [
            self.define("CW_BUILD_TESTS", False),
            self.define_from_variant("CW_BUILD_TOOLS", "tools"),
        ]
