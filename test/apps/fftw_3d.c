/* SPDX-License-Identifier: BSD-3-Clause */
/* Three-dimensional transforms of FFTW-MPI, whose transpositions exchange blocks of all sizes between all processes:
 * plane waves become one number, noise comes back from there and back and keeps its energy (Parseval); with the
 * result in the usual and in transposed order, of complex and of real data. The plans that FFTW tries before it takes
 * one differ in how they exchange. */
#include "mpi_check.h"

#include <fftw3-mpi.h>
#include <math.h>

/* A cube and the share of this process: planes of the first dimension, and of the second one when it is transposed. */
struct cube {
    ptrdiff_t n0, n1, n2, total;
    ptrdiff_t local0, start0, local1, start1, allocated;
};

static double noise(ptrdiff_t at, unsigned seed)
{
    unsigned long bits = (unsigned long)at * 0x9e3779b97f4a7c15UL + seed;

    bits = (bits ^ (bits >> 31)) * 0xbf58476d1ce4e5b9UL;
    return (double)((bits ^ (bits >> 29)) >> 11) / 9007199254740992.0 - 0.5;
}

static void fill_wave(const struct cube *cube, fftw_complex *data, const ptrdiff_t wave[3])
{
    for (ptrdiff_t at = 0; at < cube->local0 * cube->n1 * cube->n2; at++) {
        ptrdiff_t i = cube->start0 + at / (cube->n1 * cube->n2), j = at / cube->n2 % cube->n1, k = at % cube->n2;
        double angle = 2 * M_PI *
                       ((double)(wave[0] * i % cube->n0) / cube->n0 + (double)(wave[1] * j % cube->n1) / cube->n1 +
                        (double)(wave[2] * k % cube->n2) / cube->n2);

        data[at][0] = cos(angle);
        data[at][1] = sin(angle);
    }
}

/* Planes of n1 x n2 beginning at start: all are nothing but the number at the place of the wave. */
static int is_wave(const struct cube *cube, fftw_complex *data, ptrdiff_t planes, ptrdiff_t n1, ptrdiff_t place)
{
    for (ptrdiff_t at = 0; at < planes * n1 * cube->n2; at++) {
        double want = at == place ? (double)cube->total : 0;

        if (!(fabs(data[at][0] - want) < 1e-9 * cube->total && fabs(data[at][1]) < 1e-9 * cube->total)) {
            return 0;
        }
    }
    return 1;
}

static void check_wave(const struct cube *cube, fftw_plan there, fftw_plan transposed, fftw_complex *in,
                       fftw_complex *out)
{
    const ptrdiff_t wave[3] = {cube->n0 / 3, cube->n1 / 2, 1};
    ptrdiff_t place;

    fill_wave(cube, in, wave);
    fftw_execute(transposed);
    place = ((wave[1] - cube->start1) * cube->n0 + wave[0]) * cube->n2 + wave[2];
    CHECK(is_wave(cube, out, cube->local1, cube->n0, place));
    fftw_execute(there);
    place = ((wave[0] - cube->start0) * cube->n1 + wave[1]) * cube->n2 + wave[2];
    CHECK(is_wave(cube, out, cube->local0, cube->n1, place));
}

static double energy(fftw_complex *data, ptrdiff_t count)
{
    double sum = 0, all;

    for (ptrdiff_t at = 0; at < count; at++) {
        sum += data[at][0] * data[at][0] + data[at][1] * data[at][1];
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void check_noise(const struct cube *cube, fftw_plan there, fftw_plan back, fftw_complex *in, fftw_complex *out,
                        unsigned seed)
{
    ptrdiff_t count = cube->local0 * cube->n1 * cube->n2, first = cube->start0 * cube->n1 * cube->n2;
    double before;

    for (ptrdiff_t at = 0; at < count; at++) {
        in[at][0] = noise(first + at, seed);
        in[at][1] = noise(first + at, seed + 77);
    }
    before = energy(in, count);
    fftw_execute(there);
    CHECK(fabs(energy(out, count) / cube->total - before) < 1e-9 * before);
    fftw_execute(back);
    for (ptrdiff_t at = 0; at < count; at++) {
        CHECK(fabs(in[at][0] / cube->total - noise(first + at, seed)) < 1e-11);
        CHECK(fabs(in[at][1] / cube->total - noise(first + at, seed + 77)) < 1e-11);
    }
}

static void complex_cube(ptrdiff_t n0, ptrdiff_t n1, ptrdiff_t n2, unsigned flags)
{
    struct cube cube = {.n0 = n0, .n1 = n1, .n2 = n2, .total = n0 * n1 * n2};
    MPI_Comm world = MPI_COMM_WORLD;
    fftw_plan there, back, transposed;
    fftw_complex *in, *out;

    cube.allocated =
        fftw_mpi_local_size_3d_transposed(n0, n1, n2, world, &cube.local0, &cube.start0, &cube.local1, &cube.start1);
    in = fftw_alloc_complex((size_t)cube.allocated);
    out = fftw_alloc_complex((size_t)cube.allocated);
    there = fftw_mpi_plan_dft_3d(n0, n1, n2, in, out, world, FFTW_FORWARD, flags);
    back = fftw_mpi_plan_dft_3d(n0, n1, n2, out, in, world, FFTW_BACKWARD, flags);
    transposed = fftw_mpi_plan_dft_3d(n0, n1, n2, in, out, world, FFTW_FORWARD, flags | FFTW_MPI_TRANSPOSED_OUT);
    CHECK(there != NULL && back != NULL && transposed != NULL);
    check_wave(&cube, there, transposed, in, out);
    for (unsigned seed = 0; seed < 3; seed++) {
        check_noise(&cube, there, back, in, out, seed);
    }
    fftw_destroy_plan(there);
    fftw_destroy_plan(back);
    fftw_destroy_plan(transposed);
    fftw_free(in);
    fftw_free(out);
}

/* Real numbers in place; their rows are padded to whole complex ones. */
static void real_cube(ptrdiff_t n0, ptrdiff_t n1, ptrdiff_t n2, unsigned flags)
{
    ptrdiff_t local0, start0, row = 2 * (n2 / 2 + 1);
    ptrdiff_t allocated = 2 * fftw_mpi_local_size_3d(n0, n1, row / 2, MPI_COMM_WORLD, &local0, &start0);
    double *data = fftw_alloc_real((size_t)allocated), total = (double)(n0 * n1 * n2);
    fftw_plan there = fftw_mpi_plan_dft_r2c_3d(n0, n1, n2, data, (fftw_complex *)data, MPI_COMM_WORLD, flags);
    fftw_plan back = fftw_mpi_plan_dft_c2r_3d(n0, n1, n2, (fftw_complex *)data, data, MPI_COMM_WORLD, flags);

    CHECK(there != NULL && back != NULL);
    for (ptrdiff_t at = 0; at < local0 * n1 * row; at++) {
        data[at] = noise(start0 * n1 * row + at, 5);
    }
    fftw_execute(there);
    fftw_execute(back);
    for (ptrdiff_t at = 0; at < local0 * n1 * row; at++) {
        CHECK(at % row >= n2 || fabs(data[at] / total - noise(start0 * n1 * row + at, 5)) < 1e-11);
    }
    fftw_destroy_plan(there);
    fftw_destroy_plan(back);
    fftw_free(data);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    fftw_mpi_init();
    complex_cube(24, 20, 18, FFTW_MEASURE);
    complex_cube(7, 5, 3, FFTW_ESTIMATE);
    complex_cube(2, 64, 9, FFTW_ESTIMATE); /* of more than two processes some have nothing */
    complex_cube(128, 96, 100, FFTW_ESTIMATE);
    real_cube(30, 22, 17, FFTW_MEASURE);
    real_cube(120, 96, 100, FFTW_ESTIMATE);
    return check_end("fftw_3d");
}
