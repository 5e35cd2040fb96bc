"""Who may ask: this machine by its own name, with the token of this start, from this page alone.

A page on the web can make a browser send requests here. It cannot read the token, its Origin gives it away, and a name
of its own that it points at this machine (DNS rebinding) is not a name that we answer to.
"""

import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transporter.report.studio.answers import failed

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SAFE_METHODS = ("GET", "HEAD")
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
# Not a redirect: a link in another program's page counts as cross-site to its very end, and the cookie would not come.
WELCOME = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/">
<title>transporter studio</title><p><a href="/">Open the studio</a></p>"""
# Its look comes with it: whoever has no token gets no file of the page.
LOOK = "body { font: 15px/1.5 system-ui, sans-serif; max-width: 36em; margin: 15vh auto; padding: 0 20px; }"
LOCKED = f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>transporter studio</title><style>{LOOK}</style>
<h1>This studio is locked</h1>
<p>Open the address that <code>transporter studio</code> printed when it started: it carries the token.</p>
<p>If the studio was started again since, the token is a new one: look at its terminal.</p></html>"""
LOOK_HASH = base64.b64encode(hashlib.sha256(LOOK.encode()).digest()).decode()
LOCKED_POLICY = POLICY.replace("style-src 'self'", f"style-src 'sha256-{LOOK_HASH}'")


@dataclass(frozen=True)
class Door:
    """Where the studio listens, and the secrets of this start."""

    host: str = "127.0.0.1"
    port: int = 8767
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))  # what the cookie holds

    @property
    def cookie(self) -> str:
        """Cookies do not tell ports apart: two studios need two names."""
        return f"transporter-studio-{self.port}"

    @property
    def open_to_others(self) -> bool:
        return self.host not in LOOPBACK

    @property
    def address(self) -> str:
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    def answers_to(self, host: str) -> bool:
        """Whether a Host header names this studio."""
        name, port = _split(host)
        if port != self.port:
            return False
        if name in (*LOOPBACK, self.host.lower()):
            return True
        # Asked to listen beyond this machine: its name, or an address, which no foreign name server can hand out.
        return self.open_to_others and (name == socket.gethostname().lower() or _is_address(name))


def _split(host: str) -> tuple[str, int]:
    name, bracket, rest = host.lower().rpartition("]")
    name, _, port = (name[1:], "", rest[1:]) if bracket else rest.partition(":")
    return name, int(port) if port.isascii() and port.isdigit() else 80


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Stands before everything else."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._stopped(Request(scope))
            await (answer or self.app)(scope, receive, _with_headers(send))
        # Nothing here speaks WebSocket; the server refuses what no one accepts.

    def _stopped(self, request: Request) -> Response | None:
        """An answer for those who do not come in, and for the one who shows the token; None for the rest."""
        headers = request.headers
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.door.answers_to(hosts[0]):
            return failed(421, "this studio does not answer to that host name")
        if line := _foreign(request, headers):
            return failed(403, line)
        if request.method == "GET" and request.url.path == "/" and "token" in request.query_params:
            if not _same(request.query_params["token"], self.door.token):
                return _locked()
            welcome = HTMLResponse(WELCOME)
            welcome.set_cookie(self.door.cookie, self.door.session, httponly=True, samesite="strict", path="/")
            return welcome
        if not _same(_cookie(headers, self.door.cookie), self.door.session):
            wants_page = request.url.path == "/"
            return _locked() if wants_page else failed(401, "the token of this start is missing")
        return None


def _locked() -> Response:
    return HTMLResponse(LOCKED, 401, headers={"Content-Security-Policy": LOCKED_POLICY})


def _foreign(request: Request, headers: Headers) -> str | None:
    """Why a request cannot come from this studio's own page."""
    own = f"http://{headers['host']}".lower()
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin.lower() != own:
        return "requests from other pages are refused"
    if origin is None and request.method not in SAFE_METHODS:
        return "a change needs an Origin header that names this studio"
    # Another port of this machine is the same *site* to a browser, so cookies alone would not keep its pages out.
    following_a_link = request.url.path == "/" and headers.get("sec-fetch-mode", "navigate") == "navigate"
    if site not in (None, "same-origin", "none") and not following_a_link:
        return "requests from other pages are refused"
    return None


def _cookie(headers: Headers, name: str) -> str:
    jar = SimpleCookie()
    try:
        jar.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
