# SPDX-License-Identifier: BSD-3-Clause
# Recipe for Nix: `nix-build packaging/nix` builds the tree that it lies in.
{ pkgs ? import <nixpkgs> { } }:

pkgs.stdenv.mkDerivation {
  pname = "causeway";
  version = "1.22.0";
  src = pkgs.lib.cleanSource ../..;

  nativeBuildInputs = [ pkgs.cmake pkgs.ninja pkgs.python3 ];
  cmakeBuildType = "RelWithDebInfo";
  cmakeFlags = [ "-DCW_BUILD_TESTS=OFF" ];

  meta = {
    description = "Communication between processes through UCP, in place of UCX";
    license = pkgs.lib.licenses.bsd3;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
