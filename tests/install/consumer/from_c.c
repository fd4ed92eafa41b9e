/* SPDX-License-Identifier: Apache-2.0 */
#include <redsum/redsum.h>
#include <stdio.h>

int main(void) {
  redsum_options options;
  redsum_dtype dtype;
  redsum_options_init(&options);
  if (redsum_dtype_from_name("bf16", &dtype) != REDSUM_OK || redsum_dtype_bytes(dtype) != 2) return 1;
  printf("redsum %s\n", redsum_version());
  return 0;
}
