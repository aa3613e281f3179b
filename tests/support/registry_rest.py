"""What a schema registry is asked by hand."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit


def asked(url: str, method: str, path: str, body: Any = None) -> Any:
    """Return the answer to one request of Confluent's REST API."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.netloc, timeout=20)
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    text = None if body is None else json.dumps(body)
    connection.request(method, address.path + path, text, headers)
    answer = json.loads(connection.getresponse().read() or b"null")
    connection.close()
    return answer
