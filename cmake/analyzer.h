/* SPDX-License-Identifier: Apache-2.0
 *
 * Read by clang-tidy alone, ahead of each source (scripts/lint). The analyzer looks at one source at a time, so it does not
 * know that the functions that store an error message hand back the status that they were given, and would follow
 * `return uc_fail(...)` into paths where the call succeeded.
 */
#include "status.h"

#define uc_fail(status, ...) ((void)(uc_fail)((status), __VA_ARGS__), (status))
#define uc_fail_in(status, ...) ((void)(uc_fail_in)((status), __VA_ARGS__), (status))

#if __has_include("cli.h")
#include "cli.h"
#define cli_fail(...) ((void)(cli_fail)(__VA_ARGS__), CLI_BAD)
#define cli_error_set(...) ((void)(cli_error_set)(__VA_ARGS__), false)
#define cli_fail_library(what) ((void)(cli_fail_library)(what), CLI_BAD)
#endif
