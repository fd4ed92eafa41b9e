# SPDX-License-Identifier: Apache-2.0
import os
import shutil

import pytest
from laboratory import Laboratory


@pytest.fixture
def lab():
    if not shutil.which("ip"):
        pytest.skip("iproute2 is not installed; ./dev setup")
    made = Laboratory(f"test{os.getpid()}")
    yield made
    made.end()


@pytest.fixture
def other_lab():
    made = Laboratory(f"other{os.getpid()}")
    yield made
    made.end()
