# SPDX-License-Identifier: Apache-2.0
import falcon.asgi
import orjson

from kilonova.dashboard.web.export import send_csv, send_json


def test_a_spreadsheet_finds_no_formula() -> None:
    resp = falcon.asgi.Response()
    send_csv(resp, "servers", [{"name": "=HYPERLINK(1)", "size": -4}, {"name": 'a "quoted", name', "size": 1}])
    assert resp.text == 'name,size\r\n\'=HYPERLINK(1),-4\r\n"a ""quoted"", name",1\r\n'
    assert resp.get_header("Content-Disposition") == 'attachment; filename="servers.csv"'


def test_json_has_the_values_as_they_are() -> None:
    resp = falcon.asgi.Response()
    send_json(resp, "servers", [{"name": "=1"}])
    assert orjson.loads(resp.data or b"") == [{"name": "=1"}]


def test_an_empty_list_is_an_empty_file() -> None:
    resp = falcon.asgi.Response()
    send_csv(resp, "servers", [])
    assert resp.text == ""
