"""Who comes in: this machine by its own name, with the token, from the studio's own page."""

import pytest

from transporter.report.studio.guard import Door


def test_the_address_carries_the_token_once_and_a_cookie_keeps_it(studio) -> None:
    token = studio.address.partition("token=")[2]
    assert len(token) >= 32
    for part in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert part in studio.set_cookie
    assert token not in studio.set_cookie
    assert studio.get("/api/runs").status == 200
    assert b"transporter studio" in studio.get("/").body


@pytest.mark.parametrize(
    "cookie", [None, "", "other=1", "transporter-studio-1=x", "{name}=", "{name}=wrong", "a;;=;", "é"]
)
def test_without_the_cookie_nothing_is_served(studio, cookie: str | None) -> None:
    name = studio.cookie.partition("=")[0]
    given = None if cookie is None else cookie.format(name=name)
    for path in ("/api/runs", "/static/main.js", "/api/run?id=first", "/api/clip/video?id=x&kind=preview"):
        answer = studio.ask("GET", path, cookie=given)
        assert (answer.status, "error" in answer.json) == (401, True)
    assert studio.ask("POST", "/api/clips?name=a.mp4&model=run:first", b"x", cookie=given).status == 401
    locked = studio.ask("GET", "/", cookie=given)
    assert locked.status == 401
    assert b"Open the address that" in locked.body


@pytest.mark.parametrize("token", ["", "wrong", "%00", "é", "a" * 5000])
def test_a_wrong_token_opens_nothing(studio, token: str) -> None:
    from urllib.parse import quote

    answer = studio.ask("GET", f"/?token={quote(token)}", cookie=None)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


HOSTS = [
    "",
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "127.0.0.1:{port}.evil.example",
    "127.0.0.1:{port}@evil.example",
    "user@evil.example:{port}",
    "localhost:1",
    "127.0.0.1",
    "192.168.1.7:{port}",
    "[::2]:{port}",
]


@pytest.mark.parametrize("host", HOSTS)
def test_foreign_hosts_are_refused_even_with_the_cookie(studio, host: str) -> None:
    answer = studio.ask("GET", "/api/runs", headers={"Host": host.format(port=studio.port)})
    assert 400 <= answer.status < 500
    assert b"first" not in answer.body


def test_own_names_are_known(studio) -> None:
    for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert studio.ask("GET", "/api/runs", headers={"Host": f"{host}:{studio.port}"}).status == 200


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},  # another program's page on this machine
    {"Origin": "https://{host}"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_other_pages_cannot_ask(studio, headers: dict[str, str]) -> None:
    sent = {name: value.format(host=studio.host) for name, value in headers.items()}
    assert studio.ask("GET", "/api/runs", headers=sent).status == 403
    assert studio.ask("POST", "/api/play", b"{}", headers=sent).status == 403
    assert studio.ask("DELETE", "/api/clip?id=x", headers=sent).status == 403


def test_a_change_without_an_origin_is_refused(studio) -> None:
    answer = studio.ask("POST", "/api/play", b"{}", headers={"Origin": None})
    assert answer.status == 403
    assert "Origin" in answer.json["error"]


def test_a_link_from_elsewhere_may_lead_to_the_page_itself(studio) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert studio.ask("GET", "/", headers=link).status == 200
    assert studio.ask("GET", "/", headers={**link, "Sec-Fetch-Mode": "cors"}).status == 403


def test_every_answer_carries_the_policy(studio) -> None:
    for answer in (
        studio.get("/"),
        studio.get("/api/runs"),
        studio.get("/nowhere"),
        studio.ask("GET", "/", cookie=None),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


def test_doors_know_their_names() -> None:
    inside = Door("127.0.0.1", 80)
    assert inside.answers_to("localhost")  # a browser leaves :80 out
    assert not inside.answers_to("10.0.0.5")
    assert not inside.open_to_others
    everyone = Door("0.0.0.0", 8000)
    assert everyone.open_to_others
    assert everyone.answers_to("10.0.0.5:8000")
    assert everyone.answers_to("[fe80::1]:8000")
    assert not everyone.answers_to("rebound.example:8000")  # only an address cannot be pointed here by others
    assert Door().token != Door().token
