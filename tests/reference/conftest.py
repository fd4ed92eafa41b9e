# SPDX-License-Identifier: Apache-2.0
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "scripts" / "reference"), str(ROOT / "scripts")]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    return Path(os.environ["REDSUM_BUILD"])


@pytest.fixture(scope="session")
def header():
    return (ROOT / "client/redsum.h").read_text()
