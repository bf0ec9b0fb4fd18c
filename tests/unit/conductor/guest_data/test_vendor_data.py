# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from kilonova.conductor.guest_data.vendor_data import VendorDataFile, vendor_data_of
from kilonova.errors import ConfigurationError


def write(file: Path, text: str, mtime_s: int) -> Path:
    file.write_text(text)
    os.utime(file, (mtime_s, mtime_s))
    return file


def test_without_a_file_there_are_no_vendor_data() -> None:
    assert vendor_data_of(None)() == {}


def test_a_changed_file_is_read_again_and_an_unreadable_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "vendor.json", '{"region": "north"}', 1)
    data = vendor_data_of(file)
    assert data() == {"region": "north"}
    write(file, '{"region": "south"}', 2)
    assert data() == {"region": "south"}
    write(file, '{"region": ', 3)
    assert data() == {"region": "south"}
    file.unlink()
    assert data() == {"region": "south"}
    assert len(caplog.records) == 2
    write(file, "{}", 4)
    assert data() == {}


@pytest.mark.parametrize("text", [None, "nonsense", '["a", "list"]'])
def test_a_file_that_is_unusable_at_the_start_is_named_with_its_option(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "vendor.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"\[api\] vendordata_jsonfile_path: .*vendor\.json"):
        VendorDataFile(file)
