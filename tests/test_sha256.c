/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 on the vectors of FIPS 180 and of NIST's validation, and in pieces of every size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cuda/sha256.h"
#include "upconv/upconv.h"

typedef struct digest_text {
  char text[2 * UC_SHA256_SIZE + 1];
} digest_text;

static digest_text end(uc_sha256 *hash) {
  uint8_t digest[UC_SHA256_SIZE];
  digest_text result;
  uc_sha256_end(hash, digest);
  for (int i = 0; i < UC_SHA256_SIZE; i++) snprintf(result.text + 2 * i, 3, "%02x", digest[i]);
  return result;
}

static digest_text hash_text(const char *text) {
  uc_sha256 hash;
  uc_sha256_init(&hash);
  uc_sha256_add(&hash, text, strlen(text));
  return end(&hash);
}

static void vectors(void) {
  CHECK_STR(hash_text("").text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK_STR(hash_text("abc").text,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_STR(hash_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").text,
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK_STR(hash_text("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                      "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")
                .text,
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void million(void) {
  char part[1000];
  memset(part, 'a', sizeof part);
  uc_sha256 hash;
  uc_sha256_init(&hash);
  for (int i = 0; i < 1000; i++) uc_sha256_add(&hash, part, sizeof part);
  CHECK_STR(end(&hash).text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The same in one piece, and in pieces of each size, for lengths around every boundary of a block.
   */
static void pieces(void) {
  uint8_t data[200];
  uint64_t seed = 1;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)check_random(&seed);
  for (size_t length = 0; length <= sizeof data; length++) {
    uc_sha256 whole;
    uc_sha256_init(&whole);
    uc_sha256_add(&whole, data, length);
    digest_text expected = end(&whole);
    for (size_t size = 1; size <= 70; size++) {
      uc_sha256 hash;
      uc_sha256_init(&hash);
      for (size_t at = 0; at < length; at += size)
        uc_sha256_add(&hash, data + at, size < length - at ? size : length - at);
      CHECK_MSG(strcmp(end(&hash).text, expected.text) == 0, "%zu bytes by %zu", length, size);
    }
  }
}

int main(int argc, char **argv) {
  static const check_test tests[] = {
      {"vectors", vectors},
      {"million", million},
      {"pieces", pieces},
  };
  return check_main(argc, argv, tests, CHECK_COUNT(tests));
}
