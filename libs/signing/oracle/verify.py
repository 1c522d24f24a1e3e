"""Verifies callbacks with others' code: one JSON object a line in ({"key", "id", "timestamp", "signature", "body" as base64}), "ok" or why not out.

HMAC is verified by the library of the scheme's authors, Ed25519 by the cryptography package and the few lines that the scheme takes.
"""

import base64
import json
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook


def ed25519(key, message):
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.removeprefix("whpk_")))
    signed = f"{message['id']}.{message['timestamp']}.".encode() + base64.b64decode(message["body"])
    for one in message["signature"].split(" "):
        version, _, signature = one.partition(",")
        if version == "v1a":
            try:
                public.verify(base64.b64decode(signature), signed)
                return
            except Exception:
                continue
    raise ValueError("no matching signature found")


for line in sys.stdin:
    m = json.loads(line)
    try:
        if m["key"].startswith("whpk_"):
            ed25519(m["key"], m)
        else:
            headers = {"webhook-id": m["id"], "webhook-timestamp": m["timestamp"], "webhook-signature": m["signature"]}
            Webhook(m["key"]).verify(base64.b64decode(m["body"]), headers, json_parse=False)
        print("ok", flush=True)
    except Exception as e:
        print(repr(e), flush=True)
