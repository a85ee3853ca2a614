/* SPDX-License-Identifier: BSD-3-Clause */
/* The macros in C++, with what only C++ has: references, and results that are deduced. */
#include "macros.h"

namespace {

template <typename T>
ucs_status_t status_of(const T &result)
{
    return UCS_PTR_IS_ERR(result) ? UCS_PTR_RAW_STATUS(result) : UCS_PTR_STATUS(result);
}

class request;

int check_templates()
{
    request *const pointer = reinterpret_cast<request *>(0x1000);

    CHECK(status_of(pointer) == UCS_INPROGRESS);
    CHECK(status_of(static_cast<const volatile request *>(pointer)) == UCS_INPROGRESS);
    CHECK(status_of(UCS_STATUS_PTR(UCS_ERR_BUSY)) == UCS_ERR_BUSY);
    CHECK(status_of(reinterpret_cast<uintptr_t>(pointer)) == UCS_INPROGRESS);
    CHECK(status_of(&check_templates) == UCS_INPROGRESS);
    return num_failed;
}

} // namespace

int main()
{
    check_every_macro();
    return check_templates() == 0 ? 0 : 1;
}
