"""Who may see the page, and who may change anything."""

from __future__ import annotations

import pytest
from support.page import TOKEN, Server

BEARER = {"Authorization": f"Bearer {TOKEN}"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_without_the_token_nothing_is_shown(server: Server) -> None:
    for path in ("/", "/overview.json", "/events", "/nowhere"):
        answer = server.ask("GET", path, {})
        assert answer.status == 401
        assert "voyages" not in answer.text
    assert server.ask("GET", "/?token=wrong", {}).status == 401
    assert server.ask("GET", "/", {"Authorization": "Bearer wrong"}).status == 401
    assert server.ask("GET", "/", {"Cookie": f"lading_{server.port}=wrong"}).status == 401


def test_the_address_with_the_token_gives_a_cookie_that_scripts_and_other_sites_cannot_use(
    server: Server,
) -> None:
    answer = server.ask("GET", f"/overview.json?token={TOKEN}&table=a%26b", {})
    assert answer.status == 200
    cookie = answer.headers["set-cookie"]
    assert f"lading_{server.port}={TOKEN}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert 'url=/overview.json?table=a%26b"' in answer.text  # the token is gone from it
    assert server.ask("GET", "/", {"Cookie": cookie.partition(";")[0]}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil.example", ""]
)
def test_a_host_that_is_not_this_machine_is_refused(server: Server, host: str) -> None:
    answer = server.ask("GET", "/", {**BEARER, "Host": host})
    assert answer.status in (400, 421)  # without any, the server itself says no
    assert "voyages" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_may_be_called_by_each_of_its_names(server: Server, host: str) -> None:
    assert server.ask("GET", "/", {**BEARER, "Host": f"{host}:{server.port}"}).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1"])
def test_a_request_from_another_page_is_refused(server: Server, origin: str) -> None:
    assert server.ask("GET", "/", {**BEARER, "Origin": origin}).status == 403


def test_every_answer_says_that_only_this_page_may_load_anything(server: Server) -> None:
    for path, known in (("/", BEARER), ("/", {}), ("/static/lading.css", {}), ("/nowhere", BEARER)):
        headers = server.ask("GET", path, known).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert server.ask("GET", "/", BEARER).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_do_nothing(server: Server, method: str) -> None:
    assert server.ask(method, "/", BEARER).status == 405
