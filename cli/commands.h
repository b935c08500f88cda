/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of the program, one file each, and what several of them need. */
#ifndef UPCONV_CLI_COMMANDS_H
#define UPCONV_CLI_COMMANDS_H

#include "args.h"
#include "upconv/upconv.h"

extern const arg_command command_run;
extern const arg_command command_test;
extern const arg_command command_plan;
extern const arg_command command_bench;
extern const arg_command command_tune;
extern const arg_command command_demo;
extern const arg_command command_devices;
extern const arg_command command_cache;
extern const arg_command command_version;

enum { MAX_THREADS = 1024 };

/* Values of --math: upconv_math by number. */
#define MATH_CHOICES "ieee|tf32"

/* What --device accepts in all commands but plan. */
#define DEVICE_HELP "cpu (the default), cuda or cuda:N, a GPU that 'upconv devices' lists"

/* device NULL: the CPU. threads 0: as many as there are. On failure prints why and returns CLI_BAD; so it does for a device
   that only plans, unless the command is plan. */
int open_context(const char *command, const char *device, int threads, upconv_context **context);

/* True if an argument names an ONNX file, not a problem in text form. */
bool is_model(const char *argument);

/* Prints that this program was built without ONNX, and what to install. Returns CLI_BAD. */
int fail_without_onnx(const char *command);

#endif
