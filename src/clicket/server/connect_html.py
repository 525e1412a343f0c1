"""The HTML of the pages on which a person connects an account, in English and Chinese."""

from __future__ import annotations

from clicket.server.page_html import page, shown, shown_time

__all__ = ["TEXTS", "connect_page", "message_page", "put_page"]

TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Connect an account",
        "service": "Service",
        "caller": "Used by the calls of",
        "program": "the program itself",
        "where": "You decide at",
        "warning": "Continue only if you asked for this link yourself: calls of the caller above act with the account that you connect.",
        "continue": "Continue",
        "secret": "Token or key of the service",
        "save": "Save",
        "until": "This link works once, until",
        "connected": "Connected. Calls that waited for it go on. You can close this page.",
        "invalid": "This link is not valid.",
        "expired": "This link has expired. Ask for a new one.",
        "used": "This link was used already. It works once. Ask for a new one.",
        "browser": "This answer belongs to another browser. Nothing was connected. Open the link again in one browser.",
        "issuer": "The answer came from another authorization server than the one that was asked. Nothing was connected.",
        "declined": "The service did not agree. Nothing was connected. Ask for a new link to try again.",
        "failed": "The service did not give a token. Nothing was connected. Ask for a new link to try again.",
        "kind": "The settings of this service have changed. Ask for a new link.",
        "full": "This caller has as many accounts as it may have. Revoke one, and ask for a new link.",
        "unreachable": "The service does not answer now. Nothing was connected. Try again later.",
        "secret_wrong": "That is not a token: it is one line of printable characters without spaces. Try again.",
    },
    "zh": {
        "title": "连接账户",
        "service": "服务",
        "caller": "供此调用方使用",
        "program": "程序自身",
        "where": "您将在此处作出决定",
        "warning": "仅当此链接是您本人请求时才继续：上述调用方的调用将以您连接的账户执行操作。",
        "continue": "继续",
        "secret": "该服务的令牌或密钥",
        "save": "保存",
        "until": "此链接只能使用一次，有效期至",
        "connected": "已连接。等待它的调用将继续执行。您可以关闭此页面。",
        "invalid": "此链接无效。",
        "expired": "此链接已过期。请索取新链接。",
        "used": "此链接已被使用，只能使用一次。请索取新链接。",
        "browser": "此应答属于另一个浏览器。未连接任何账户。请在同一浏览器中重新打开链接。",
        "issuer": "应答来自另一个授权服务器，而不是所请求的那个。未连接任何账户。",
        "declined": "该服务未同意。未连接任何账户。请索取新链接后重试。",
        "failed": "该服务未给出令牌。未连接任何账户。请索取新链接后重试。",
        "kind": "此服务的设置已更改。请索取新链接。",
        "full": "此调用方的账户数量已达上限。请先撤销一个，再索取新链接。",
        "unreachable": "该服务目前没有应答。未连接任何账户。请稍后再试。",
        "secret_wrong": "这不是令牌：令牌是一行可打印字符，不含空格。请重试。",
    },
}


def connect_page(service: str, caller: str, where: str, expires_at: float, language: str) -> bytes:
    """What is connected for which caller, and a button that leads to the provider."""
    said = TEXTS[language]
    rows = [
        (said["service"], shown(service)),
        (said["caller"], shown(caller) or said["program"]),
        (said["where"], shown(where)),
    ]
    return _form(rows, f"<button>{said['continue']}</button>", expires_at, language)


def put_page(service: str, caller: str, expires_at: float, language: str) -> bytes:
    """A field for a token."""
    said = TEXTS[language]
    rows = [(said["service"], shown(service)), (said["caller"], shown(caller) or said["program"])]
    field = (
        f'<label for="secret">{said["secret"]}</label>'
        '<input id="secret" name="secret" type="password" autocomplete="off" required maxlength="65536"> '
        f"<button>{said['save']}</button>"
    )
    return _form(rows, field, expires_at, language)


def message_page(text: str, language: str) -> bytes:
    """One sentence, by its name in `TEXTS`."""
    said = TEXTS[language]
    return page(said["title"], f"<h1>{said['title']}</h1><p>{said[text]}</p>", language)


def _form(rows: list[tuple[str, str]], fields: str, expires_at: float, language: str) -> bytes:
    said = TEXTS[language]
    listed = "".join(f"<dt>{name}</dt><dd><bdi>{value}</bdi></dd>" for name, value in rows)
    body = (
        f"<h1>{said['title']}</h1><dl>{listed}</dl><p>{said['warning']}</p>"
        f'<form method="post">{fields}</form><p class="note">{said["until"]} {shown_time(expires_at)}.</p>'
    )
    return page(said["title"], body, language)
