# SPDX-License-Identifier: Apache-2.0
"""What the tests of the package share. The package is that of PYTHONPATH, or an installed one."""

import os

from hypothesis import settings

# The same problems every time; UPCONV_SEARCH=1 looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("search", deadline=None, print_blob=True)
settings.load_profile("search" if os.environ.get("UPCONV_SEARCH") else "fixed")

# The decisions of whoever runs the tests are none of their business.
os.environ["UPCONV_TUNE_FILE"] = ""
