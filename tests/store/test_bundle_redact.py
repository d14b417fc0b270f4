"""Exported without its secrets: masked wherever they stand, and what is left fits together."""

import base64
import gzip
import hashlib
import html
import io
import itertools
import json
import re
import shlex
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from urllib.parse import quote, quote_plus

import pytest
from inline_snapshot import snapshot

from holdall.formats import shapes
from holdall.store.bundle import redact
from holdall.store.bundle.export import export_session
from holdall.store.bundle.redact import Redactor, usual_rules
from holdall.store.bundle.rules import shared_rules
from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.text.secrets import Masker, masked, merged
from holdall.values.bundles import Exported
from holdall.values.errors import MissingExtra, StoreFault, UsageError
from holdall.values.outputs import Origin
from holdall.wire.answers import hex_rows
from tests.requirements import requirement
from tests.store.bundles import exported, imported, taken_apart, unpacked
from tests.store.support import keep, read_back
from tests.support import in_effort

RULES = shared_rules()
PLANT = Path(__file__).parents[2] / "../shared/redaction/plant.py"
# None of these is anybody's: each only has the form.
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
AWS = "AKIA" + "QWERTYUIOPASDFGH"
PASSWORD = "correct-horse-7!"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1y2z3\nq9w8e7r6t5\n-----END RSA PRIVATE KEY-----\n"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"

RANDOM = "q7Zk2mPw9LxT4bNs8RdV" * 4
DIGITS = "0ce5b1bbe792eb654e1ba5ff071e56ce3a845a45" * 2
PUBLISHED = [  # how tokens begin, and how many signs follow
    "dckr_pat_27", "lin_api_40", "ntn_46", "secret_43", "figd_40", "ATATT3xFfGF0_60", "xai-80", "gsk_52", "pplx-48", "r8_37",
    "jina_60", "apify_api_36", "tgp_v1_43", "csk-48", "nfp_40", "dp.pt.43", "ops_eyJ80", "sq0atp-22", "fo1_43", "fm2_80",
    "sntrys_60", "napi_64", "sb_secret_31", "xoxc-60", "sha256~43", "re_AbCd1234_24", "pcsk_2WbGPa_60",
    "nvapi-64", "tvly-32", "pscale_tkn_43", "CFPAT-43", "tskey-auth-40", "v2.local.60", "ory_at_40", "Abc8Q~34",
]  # fmt: skip
SECRETS: dict[str, tuple[str, str]] = {
    **{
        form: (f"got {form.rstrip('0123456789')}{RANDOM[: int(form[-2:])]} from it", RANDOM[: int(form[-2:])])
        for form in PUBLISHED
    },
    **{
        form: (f"got {form}{DIGITS[:length]} from it", DIGITS[:length])
        for form, length in {
            "dapi": 32,
            "rubygems_": 48,
            "sbp_": 40,
            "key-": 32,
            "pul-": 40,
            "fc-": 32,
            "e2b_": 40,
            "sk_": 48,
            "sgp_": 40,
            "squ_": 40,
        }.items()
    },
    "a key of Postman": (f"got PMAK-{DIGITS[:24]}-{DIGITS[:34]}", DIGITS[:34]),
    "a token of Airtable": (f"got pat{RANDOM[:14]}.{DIGITS[:64]}", DIGITS[:64]),
    "a token of Grafana": (f"got glsa_{RANDOM[:32]}_{DIGITS[:8]}", RANDOM[:32]),
    "a key of New Relic": ("got NRAK-" + "1DJ5X6SYF1I6O15EX87LDNMBWPP", "1DJ5X6SYF1I6O15EX87LDNMBWPP"),
    "the file of AWS": (f"Access key ID,Secret access key\n{AWS},{RANDOM[:40]}\n", RANDOM[:40]),
    "a session of AWS": (f"CREDENTIALS\tASIA{AWS[4:]}\t2026-01-01\t{RANDOM[:40]}\tFwoG{RANDOM[:60]}", RANDOM[:40]),
    "its token": (f"CREDENTIALS\tASIA{AWS[4:]}\t2026-01-01\t{DIGITS[:40]}\tFwoG{RANDOM[:60]}", RANDOM[:60]),
    "what aws configure asks": (f"AWS Secret Access Key [None]: {RANDOM[:40]}", RANDOM[:40]),
    "a key to encrypt with": (f"ENCRYPTION_KEY={DIGITS[:64]}", DIGITS[:64]),
    "a key to sign with": (f"signing_key: {DIGITS[:64]}", DIGITS[:64]),
    "a master key": (f"RAILS_MASTER_KEY={DIGITS[:64]}", DIGITS[:64]),
    "a personal access token": (f"AZURE_DEVOPS_EXT_PAT={RANDOM[:30]}", RANDOM[:30]),
    "a session of Bitwarden": (f"BW_SESSION={RANDOM[:20]}", RANDOM[:20]),
    "a variable of a Dockerfile": (f"ENV API_TOKEN {RANDOM[:40]}", RANDOM[:40]),
    "a variable of csh": (f"setenv API_TOKEN {RANDOM[:40]}", RANDOM[:40]),
    "a variable of fish": (f"set -x API_KEY {RANDOM[:40]}", RANDOM[:40]),
    "a password of PowerShell": (f'$password = ConvertTo-SecureString "{RANDOM[:40]}" -AsPlainText', RANDOM[:40]),
    "a token in a form": (f'<input type="hidden" name="api_token" value="{RANDOM[:20]}">', RANDOM[:20]),
    "a cookie of curl": (f"curl -b 'session={RANDOM[:40]}' u", RANDOM[:40]),
    "a cookie of curl, spelled out": (f"curl --cookie sid={RANDOM[:40]} u", RANDOM[:40]),
    "a file of cookies": (f".example.com\tTRUE\t/\tTRUE\t1999999999\tsessionid\t{RANDOM[:40]}", RANDOM[:40]),
    "a password of redis-cli": (f"redis-cli -h h -a {RANDOM[:20]} ping", RANDOM[:20]),
    "a password of Redis": (f"127.0.0.1:6379> AUTH {RANDOM[:20]}", RANDOM[:20]),
    "a password of mongosh": (f"mongosh --host h -u a -p {RANDOM[:20]}", RANDOM[:20]),
    "a password of ldapsearch": (f"ldapsearch -D cn=admin -w {RANDOM[:20]} -b dc=x", RANDOM[:20]),
    "a password of htpasswd": (f"htpasswd -b file bob {RANDOM[:20]}", RANDOM[:20]),
    "a password of openssl": (f"openssl rsa -passin pass:{RANDOM[:20]} -in k", RANDOM[:20]),
    "a password of keytool": (f"keytool -storepass {RANDOM[:20]} -list", RANDOM[:20]),
    "a password of net use": (rf"net use \\srv\s /user:dom\bob {RANDOM[:20]}", RANDOM[:20]),
    "a key of a flag": (f"join --authkey {RANDOM[:30]}", RANDOM[:30]),
    "a token of GitHub": (f"cloning with {TOKEN} now", TOKEN),
    "a fine-grained one": ("token github_pat_" + "11ABCDEFG0" * 5, "11ABCDEFG0" * 5),
    "a key of AWS": (f"aws_access_key_id = {AWS}", AWS),
    "a secret key of AWS": ("aws_secret_access_key='" + "aB3/" * 10 + "'", "aB3/" * 10),
    "a password in JSON": (json.dumps({"user": "x", "password": PASSWORD}), PASSWORD),
    "a password with a quote in JSON": (json.dumps({"password": 'ab"cd\\ef', "next": 1}), "cd"),
    "a password in JSON in JSON": (json.dumps({"text": json.dumps({"password": PASSWORD})}), PASSWORD),
    "a password of the environment": (f"PATH=/bin\nDB_PASSWORD={PASSWORD}\nHOME=/root", PASSWORD),
    "a password in YAML": (f"db:\n  password: {PASSWORD}\n  host: x", PASSWORD),
    "a key in a header": ("X-Api-Key: 0123456789abcdef0123", "0123456789abcdef0123"),
    "a password in a URL": (f"postgres://admin:{PASSWORD}@db.example:5432/x", PASSWORD),
    "a variable of a container": (json.dumps({"env": [{"name": "DB_PASSWORD", "value": PASSWORD}]}), PASSWORD),
    "a pair of names in JSON": (json.dumps({"Key": "password", "Value": PASSWORD}), PASSWORD),
    "a password with signs in a URL": ("postgres://app:pa:ss@AbCd9f@db/prod", "AbCd9f"),
    "a short password in a URL": ("redis://:pw@cache/0", ":pw@"),
    "a connection string": (f"Server=db;User Id=sa;Password={PASSWORD};Encrypt=true", PASSWORD),
    "a key of a storage account": ("AccountName=x;AccountKey=" + "Ab1+" * 21 + "AbC=;", "Ab1+" * 21),
    "a bearer token": ("curl -H 'Authorization: Bearer abcdef0123456789XYZ'", "abcdef0123456789XYZ"),
    "a cookie": ("Set-Cookie: session=0a1b2c3d4e5f; Path=/", "0a1b2c3d4e5f"),
    "a JSON web token": (f"got {JWT} back", JWT),
    "a private key": (KEY, "MIIEowIBAAKCAQEAx1y2z3"),
    "the rest of a private key": (KEY, "q9w8e7r6t5"),
    "a private key in JSON": (json.dumps({"key": KEY, "n": 1}), "MIIEowIBAAKCAQEAx1y2z3"),
    "a token of Slack": ("xoxb-" + "123456789012-" * 2 + "AbCdEfGhIjKlMnOp", "AbCdEfGhIjKlMnOp"),
    "a key of Google": ("AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q", "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q"),
    "a key of a model's provider": ("sk-ant-api03-" + "abcDEF123_-" * 5, "abcDEF123_-" * 5),
    "a key of Stripe": ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "4eC39HqLyjWDarjtT1zdp7dc"),
    "a token of GitLab": ("glpat-" + "x1Y2z3A4b5C6d7E8f9G0", "x1Y2z3A4b5C6d7E8f9G0"),
    "a session token": ('{"SessionToken": "' + "FwoGZXIv+/=a" * 5 + '"}', "FwoGZXIv+/=a" * 5),
    "a token of Vault": ("vault hvs." + "CAESIabc123_-" * 3, "CAESIabc123_-" * 3),
    "a shared access signature": ("https://x.example/b?sp=r&sig=" + "aB3%2F" * 6, "aB3%2F" * 6),
    "a password of curl": (f"curl -sS -u admin:{PASSWORD} https://x.example", PASSWORD),
    "a password of mysql": (f"mysqldump -uapp -p{PASSWORD} shop", PASSWORD),
    "a password of docker": (f"docker login -u bob -p {PASSWORD} r.example", PASSWORD),
    "a password of mysql after its port": (f"mysql -h db -P3306 -p{PASSWORD}", PASSWORD),
    "a password of sshpass": (f"sshpass -p {PASSWORD} ssh host", PASSWORD),
    "a password after a flag": (f"tool --db-password {PASSWORD} --user a", PASSWORD),
    "a password in XML": (f'<db:Password type="x">{PASSWORD}</db:Password>', PASSWORD),
    "a password in a sentence": (f"the password is {PASSWORD} for now", PASSWORD),
    "a password of netrc": (f"machine x.example\n  login bob\n  password {PASSWORD}\n", PASSWORD),
    "a password of pgpass": (f"# mine\ndb.example:5432:shop:app:{PASSWORD}\n", PASSWORD),
    "a password of Oracle": (f"jdbc:oracle:thin:app/{PASSWORD}@//db:1521/X", PASSWORD),
    "a password in German": (f"Passwort: {PASSWORD}", PASSWORD),
    "a login of docker": ('{"auths": {"r.example": {"auth": "Ym9iOnNlY3JldDEyMw=="}}}', "Ym9iOnNlY3JldDEyMw=="),
    "a secret of Kubernetes": (
        "kind: Secret\nmetadata:\n  name: x\ndata:\n  tls.crt: YWJjZGVmZ2hpag==\n",
        "YWJjZGVmZ2hpag==",
    ),
    "a private key in a log": (
        "".join(f"2026-01-01 host: {line}\n" for line in KEY.replace("q9w8e7r6t5", "q9w8e7r6t5q9w8e7").splitlines()),
        "q9w8e7r6t5q9w8e7",
    ),
    "a key of PuTTY": ("Private-Lines: 2\n" + "AAAA1b2c3d4e5f6g7h8i\n" * 2 + "Private-MAC: 00", "AAAA1b2c3d4e5f6g7h8i"),
    "a password that begins with a dollar": ("DB_PASSWORD=$up3rS3cretPw", "$up3rS3cretPw"),
    "a password that begins with a per cent": ('"password": "%pw9fD2kLmQ",', "%pw9fD2kLmQ"),
    "a password that begins with a bracket": ("DB_PASSWORD=(Tr0ub4dor&3x", "Tr0ub4dor&3x"),
    "a password with any signs": ("export DB_PASSWORD=abc&def(gh;i|j k", "gh;i|j k"),
    "a key that begins with a slash": ("AWS_SECRET_ACCESS_KEY=/JalrXUtnFEMIK7MDENG/PxRfiCYzEXAMPLEKEYa", "JalrXUtn"),
    "a column of CSV": (f'user,password,n\nann,"x,y{TOKEN}",1\nbob,{PASSWORD},2\n', PASSWORD),
    "a column with quotes": (f'user;"db password"\r\nann;"a;{PASSWORD}"\r\n', PASSWORD),
    "a column of tabs": (f"user\tapi_key\nbob\t{PASSWORD}\n", PASSWORD),
    "a column of Markdown": (f"text\n\n| user | password |\n|---|---|\n| bob | {PASSWORD} |\n", PASSWORD),
    "a column of psql": (f" user | password\n------+----------\n bob  | {PASSWORD}\n(1 row)\n", PASSWORD),
    "a value in YAML": (f"env:\n- name: DB_PASSWORD\n  value: {PASSWORD}\n", PASSWORD),
    "a block of YAML with a tag": (f"password: !vault |\n  {PASSWORD}\n", PASSWORD),
    "a line below its name in YAML": (f"password: >-\n  {PASSWORD}\n", PASSWORD),
    "a user of PostgreSQL": (f"ALTER USER bob WITH PASSWORD '{PASSWORD}';", PASSWORD),
    "a user of MySQL": (f"CREATE USER 'a'@'%' IDENTIFIED BY '{PASSWORD}';", PASSWORD),
    "a literal of kubectl": (f"kubectl create secret generic x --from-literal=db={PASSWORD}", PASSWORD),
    "a Secret as JSON": ('{"kind": "Secret", "data": {"cfg": "aHVuVGVyMlpxODE="}}', "aHVuVGVyMlpxODE="),
    "an escaped equals sign": (f"x=1&y=DB_PASSWORD%3D{PASSWORD}", PASSWORD),
    "a token of npm": ("//registry.example/:_authToken=npm_" + "Ab1" * 12, "Ab1" * 12),
}
PLAIN = [
    '{"name": "max_tokens", "value": "4096"}',
    '{"name": "secretary", "value": "Anna Bell"}',
    "PASSWORD=$DB_PASSWORD",
    "password: ${VAULT_PW}",
    "PASSWORD=$(pass show db)",
    "password: /run/secrets/db",
    "password: <your password>",
    "password: {{ .Values.pw }}",
    "password = %(pw)s",
    "OLDPWD=/workspace/Project9",
    "Failed password for root from 10.0.0.1 port 22 ssh2",
    "PWD=/home/user/project",
    json.dumps({"password": None, "token_count": 12, "tokens": "many"}),
    "def login(user: str, password: str) -> bool:",
    "sha256 " + hashlib.sha256(b"x").hexdigest(),
    "commit 4f2a9c1e0b7d6a5f8c3e2d1b0a9f8e7d6c5b4a39",
    "see https://example.com/a:b/c@d?token",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "the secretary: Mrs. Smith",
    "the password is incorrect",
    "src/app.py:12:40:unused:variable",
    "kind: ConfigMap\ndata:\n  key: YWJjZGVmZ2hpag==\n",
    "mysql -p",
    "tool --password-file /etc/pw",
    "<token>",
    "the user, the password, and the rest\nof it, in one, or two lines",
    "user,password_hint\n",
    "a | secret plan | b\nno table",
    "import os, secrets\nimport re, sys",
    '{"kind": "ConfigMap", "data": {"cfg": "aHVuVGVyMlpxODE="}}',
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef: {name: x}",
]


def _masked(text: str) -> str:
    data = text.encode()
    changed = masked(data, merged(RULES.find(data)))
    assert len(changed) == len(data)
    return changed.decode()


@pytest.mark.parametrize("what", SECRETS)
def test_it_is_masked(what: str) -> None:
    text, secret = SECRETS[what]
    hidden = _masked(text)
    assert secret not in hidden
    assert hidden.count("\n") == text.count("\n")


def test_what_is_masked_ends_where_it_ends() -> None:
    """To the sign: what is around a secret tells what it was of."""
    hidden = {what: _masked(text) for what, (text, _) in SECRETS.items()}
    assert {
        what: re.sub(r"\*+", lambda found: f"*{len(found[0])}*", text) for what, text in hidden.items()
    } == snapshot(
        {
            "dckr_pat_27": "got *36* from it",
            "lin_api_40": "got *48* from it",
            "ntn_46": "got *50* from it",
            "secret_43": "got *50* from it",
            "figd_40": "got *45* from it",
            "ATATT3xFfGF0_60": "got *73* from it",
            "xai-80": "got *84* from it",
            "gsk_52": "got *56* from it",
            "pplx-48": "got *53* from it",
            "r8_37": "got *40* from it",
            "jina_60": "got *65* from it",
            "apify_api_36": "got *46* from it",
            "tgp_v1_43": "got *50* from it",
            "csk-48": "got *52* from it",
            "nfp_40": "got *44* from it",
            "dp.pt.43": "got *49* from it",
            "ops_eyJ80": "got *87* from it",
            "sq0atp-22": "got *29* from it",
            "fo1_43": "got *47* from it",
            "fm2_80": "got *84* from it",
            "sntrys_60": "got *67* from it",
            "napi_64": "got *69* from it",
            "sb_secret_31": "got *41* from it",
            "xoxc-60": "got *65* from it",
            "sha256~43": "got *50* from it",
            "re_AbCd1234_24": "got *36* from it",
            "pcsk_2WbGPa_60": "got *72* from it",
            "nvapi-64": "got *70* from it",
            "tvly-32": "got *37* from it",
            "pscale_tkn_43": "got *54* from it",
            "CFPAT-43": "got *49* from it",
            "tskey-auth-40": "got *51* from it",
            "v2.local.60": "got *69* from it",
            "ory_at_40": "got *47* from it",
            "Abc8Q~34": "got *40* from it",
            "dapi": "got *36* from it",
            "rubygems_": "got *57* from it",
            "sbp_": "got *44* from it",
            "key-": "got *36* from it",
            "pul-": "got *44* from it",
            "fc-": "got *35* from it",
            "e2b_": "got *44* from it",
            "sk_": "got *51* from it",
            "sgp_": "got *44* from it",
            "squ_": "got *44* from it",
            "a key of Postman": "got *64*",
            "a token of Airtable": "got *82*",
            "a token of Grafana": "got *46*",
            "a key of New Relic": "got *32*",
            "the file of AWS": """\
Access key ID,Secret access key
*20*,*40*
""",
            "a session of AWS": "CREDENTIALS\t*20*\t2026-01-01\t*40*\t*64*",
            "its token": "CREDENTIALS\t*20*\t2026-01-01\t*40*\t*64*",
            "what aws configure asks": "AWS Secret Access Key [None]: *40*",
            "a key to encrypt with": "ENCRYPTION_KEY=*64*",
            "a key to sign with": "signing_key: *64*",
            "a master key": "RAILS_MASTER_KEY=*64*",
            "a personal access token": "AZURE_DEVOPS_EXT_PAT=*30*",
            "a session of Bitwarden": "BW_SESSION=*20*",
            "a variable of a Dockerfile": "ENV API_TOKEN *40*",
            "a variable of csh": "setenv API_TOKEN *40*",
            "a variable of fish": "set -x API_KEY *40*",
            "a password of PowerShell": '$password = *22* "*40*" -AsPlainText',
            "a token in a form": '<input type="hidden" name="api_token" value="*20*">',
            "a cookie of curl": "curl -b 'session=*40*' u",
            "a cookie of curl, spelled out": "curl --cookie sid=*40* u",
            "a file of cookies": ".example.com\tTRUE\t/\tTRUE\t1999999999\tsessionid\t*40*",
            "a password of redis-cli": "redis-cli -h h -a *20* ping",
            "a password of Redis": "127.0.0.1:6379> AUTH *20*",
            "a password of mongosh": "mongosh --host h -u a -p *20*",
            "a password of ldapsearch": "ldapsearch -D cn=admin -w *20* -b dc=x",
            "a password of htpasswd": "htpasswd -b file bob *20*",
            "a password of openssl": "openssl rsa -passin pass:*20* -in k",
            "a password of keytool": "keytool -storepass *20* -list",
            "a password of net use": "net use \\\\srv\\s /user:dom\\bob *20*",
            "a key of a flag": "join --authkey *30*",
            "a token of GitHub": "cloning with *40* now",
            "a fine-grained one": "token *61*",
            "a key of AWS": "aws_access_key_id = *20*",
            "a secret key of AWS": "aws_secret_access_key='*40*'",
            "a password in JSON": '{"user": "x", "password": "*16*"}',
            "a password with a quote in JSON": '{"password": "*10*", "next": 1}',
            "a password in JSON in JSON": '{"text": "{\\"password\\": \\"*16*\\"}"}',
            "a password of the environment": """\
PATH=/bin
DB_PASSWORD=*16*
HOME=/root\
""",
            "a password in YAML": """\
db:
  password: *16*
  host: x\
""",
            "a key in a header": "X-Api-Key: *20*",
            "a password in a URL": "postgres://admin:*16*@db.example:5432/x",
            "a variable of a container": '{"env": [{"name": "DB_PASSWORD", "value": "*16*"}]}',
            "a pair of names in JSON": '{"Key": "password", "Value": "*16*"}',
            "a password with signs in a URL": "postgres://app:*12*@db/prod",
            "a short password in a URL": "redis://:*2*@cache/0",
            "a connection string": "Server=db;User Id=sa;Password=*16*;Encrypt=true",
            "a key of a storage account": "AccountName=x;*98*=;",
            "a bearer token": "curl -H 'Authorization: Bearer *19*'",
            "a cookie": "Set-Cookie: *28*",
            "a JSON web token": "got *71* back",
            "a private key": """\
-----BEGIN RSA PRIVATE KEY-----
*22*
*10*
-----END RSA PRIVATE KEY-----
""",
            "the rest of a private key": """\
-----BEGIN RSA PRIVATE KEY-----
*22*
*10*
-----END RSA PRIVATE KEY-----
""",
            "a private key in JSON": '{"key": "-----BEGIN RSA PRIVATE KEY-----\\n*34*\\n-----END RSA PRIVATE KEY-----\\n", "n": 1}',
            "a token of Slack": "*47*",
            "a key of Google": "*39*",
            "a key of a model's provider": "*68*",
            "a key of Stripe": "*32*",
            "a token of GitLab": "*26*",
            "a session token": '{"SessionToken": "*60*"}',
            "a token of Vault": "vault *43*",
            "a shared access signature": "https://x.example/b?sp=r&sig=*36*",
            "a password of curl": "curl -sS -u admin:*16* https://x.example",
            "a password of mysql": "mysqldump -uapp -p*16* shop",
            "a password of docker": "docker login -u bob -p *16* r.example",
            "a password of mysql after its port": "mysql -h db -P3306 -p*16*",
            "a password of sshpass": "sshpass -p *16* ssh host",
            "a password after a flag": "tool --db-password *16* --user a",
            "a password in XML": '<db:Password type="x">*16*</db:Password>',
            "a password in a sentence": "the password is *16* for now",
            "a password of netrc": """\
machine x.example
  login bob
  password *16*
""",
            "a password of pgpass": """\
# mine
db.example:5432:shop:app:*16*
""",
            "a password of Oracle": "jdbc:oracle:thin:app/*16*@//db:1521/X",
            "a password in German": "Passwort: *16*",
            "a login of docker": '{"auths": {"r.example": {"auth": "*20*"}}}',
            "a secret of Kubernetes": """\
kind: Secret
metadata:
  name: x
data:
  tls.crt: *16*
""",
            "a private key in a log": """\
2026-01-01 host: -----BEGIN RSA PRIVATE KEY-----
2026-01-01 host: *22*
2026-01-01 host: *16*
2026-01-01 host: -----END RSA PRIVATE KEY-----
""",
            "a key of PuTTY": """\
Private-Lines: 2
*20*
*20*
Private-MAC: 00\
""",
            "a password that begins with a dollar": "DB_PASSWORD=*13*",
            "a password that begins with a per cent": '"password": "*11*",',
            "a password that begins with a bracket": "DB_PASSWORD=*13*",
            "a password with any signs": "export DB_PASSWORD=*16*",
            "a key that begins with a slash": "AWS_SECRET_ACCESS_KEY=*40*",
            "a column of CSV": """\
user,password,n
ann,"*43*",1
bob,*16*,2
""",
            "a column with quotes": """\
user;"db password"\r
ann;"*18*"\r
""",
            "a column of tabs": """\
user	api_key
bob	*16*
""",
            "a column of Markdown": """\
text

| user | password |
|---|---|
| bob | *16* |
""",
            "a column of psql": """\
 user | password
------+----------
 bob  | *16*
(1 row)
""",
            "a value in YAML": """\
env:
- name: DB_PASSWORD
  value: *16*
""",
            "a block of YAML with a tag": """\
password: *6* |
  *16*
""",
            "a line below its name in YAML": """\
password: >-
  *16*
""",
            "a user of PostgreSQL": "ALTER USER bob WITH PASSWORD '*16*';",
            "a user of MySQL": "CREATE USER 'a'@'%' IDENTIFIED BY '*16*';",
            "a literal of kubectl": "kubectl create secret generic x --from-literal=db=*16*",
            "a Secret as JSON": '{"kind": "Secret", "data": {"cfg": "*16*"}}',
            "an escaped equals sign": "x=1&y=DB_PASSWORD%3D*16*",
            "a token of npm": "//registry.example/:_authToken=*40*",
        }
    )


@pytest.mark.parametrize("what", [name for name, (text, _) in SECRETS.items() if text.startswith("{")])
def test_json_around_it_stays_json(what: str) -> None:
    text, _ = SECRETS[what]
    assert set(json.loads(_masked(text))) == set(json.loads(text))


@pytest.mark.parametrize("text", [one for one in PLAIN if not one.startswith("the secretary")])
def test_what_only_looks_a_little_like_one_stays(text: str) -> None:
    assert _masked(text) == text


KEY_LINES = [base64.b64encode(hashlib.sha384(b"%d" % n).digest()).decode() for n in range(3)]
KEY_BEGIN, KEY_END = KEY.splitlines()[0], KEY.splitlines()[-1]
ON_LINES_OF_A_KEY: dict[str, str] = {  # what stands around each
    "a diff that takes it out": "-{}",
    "a diff that adds it": "+{}",
    "a file and its line": "etc/certs/private/server-key.pem:3:{}",
    "what stands next to a line": "server-key.pem-3-{}",
    "Python": '    "{}\\n"',
    "Java": '    "{}\\n" +',
    "JSON": '  "{}\\n",',
    "HTML": "{}<br>",
    "a table": "| {} |",
    "a journal": "Nov 17 10:00:00 host-1 app[12]: {}",
    "colours": "\x1b[32m{}\x1b[0m",
    "cat -A": "{}$",
}


@pytest.mark.parametrize("around", ON_LINES_OF_A_KEY)
@pytest.mark.parametrize("has_end", [True, False], ids=["whole", "cut"])
@requirement("bundle:redaction-recall")
def test_a_private_key_is_masked_whatever_stands_on_its_lines(around: str, has_end: bool) -> None:
    form = ON_LINES_OF_A_KEY[around]
    headers = ["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-256-CBC,00112233", ""]
    for lines in (KEY_LINES, [*headers, *KEY_LINES], [*KEY_LINES, "Ab1="] if has_end else KEY_LINES):
        text = "\n".join(form.format(one) for one in [KEY_BEGIN, *lines, *([KEY_END] if has_end else [])])
        hidden = _masked(f"first\n{text}\nlast: etc/other/words/that/are/long\n")
        assert [one for one in lines if one not in headers and one in hidden] == []
        assert hidden.startswith(f"first\n{form.split('{}')[0]}{KEY_BEGIN}")
        assert hidden.endswith("last: etc/other/words/that/are/long\n")


@pytest.mark.parametrize("around", ON_LINES_OF_A_KEY)
@pytest.mark.parametrize("has_end", [True, False], ids=["whole", "cut"])
@requirement("bundle:redaction-recall")
def test_a_key_of_putty_is_masked_whatever_stands_on_its_lines(around: str, has_end: bool) -> None:
    form = ON_LINES_OF_A_KEY[around]
    lines = [*KEY_LINES, "Ab1Cd2E="] if has_end else KEY_LINES
    before = ["PuTTY-User-Key-File-3: ssh-rsa", "Public-Lines: 1", "AAAAB3NzaC1yc2EAAAADAQABAAABAQ", "Private-Lines: 4"]
    after = [f"Private-MAC: {DIGITS[:64]}"] if has_end else []
    text = "\n".join(form.format(one) for one in [*before, *lines, *after])
    hidden = _masked(f"{text}\nlast: etc/other/words/that/are/long\n")
    assert [one for one in lines if one in hidden] == []
    assert [one for one in [*before, *after] if one not in hidden] == []
    assert hidden.endswith("last: etc/other/words/that/are/long\n")


@pytest.mark.parametrize("what", ["of PGP", "mentioned"])
def test_words_after_the_first_line_of_a_key_stay(what: str) -> None:
    if what == "mentioned":
        text = f"A key begins with {KEY_BEGIN} and you should keep it at home\nnext: internationalization\n"
        assert _masked(text) == text
    else:
        block = "\n".join(["-----BEGIN PGP PRIVATE KEY BLOCK-----", "Charset: utf-8", "", *KEY_LINES, "=aB1c"])
        hidden = _masked(f"{block}\n-----END PGP PRIVATE KEY BLOCK-----\n")
        assert [one for one in [*KEY_LINES, "=aB1c"] if one in hidden] == []
        assert "Charset: utf-8" in hidden


OPAQUE = "Hq7vTz92LmXp4Rk"
TO_THE_SIGN = [  # what is in double angle brackets is masked, and nothing else
    'password = "⟪Hq7vTz92 and more⟫\nnext: line\n',
    'x password: "⟪Hq7vTz92LmXp4Rk⟫',
    "curl -u admin:⟪hunter2x⟫\\\n  https://x.example",
    "curl -u admin:⟪hunter2x\\\\⟫\n  https://x.example",
    "user,password\nbob,⟪sunshine⟫\namy,⟪summer⟫\n",
    "user,password,n\nbob,⟪sunshine⟫,1\n",
    "Enter  password  (again)!\n       Hq7vTz92LmXp4Rk\n",
    "Enter  password  again\n       ⟪Hq7vTz92LmXp4Rk⟫\n",
    (
        "INSERT INTO a (n, password) VALUES ('INSERT INTO b (password) VALUES (1)', '⟪Hq7vTz92⟫');\n"
        "INSERT INTO c (password) VALUES ('⟪Kq8wPz37⟫');"
    ),
    "psk=⟪" + "Ab1-" * 15 + "Ab1é⟫z more\n",
    '"DB_PASSWORD=⟪ab c(d9fK2⟫" x',
    "mysql -p⟪Hq7vTz92LmXp4Rk⟫ -p⟪Kq8wPz37VnTx2Lm⟫ x",
    'x = ["Password:"], y\npassword = "⟪Hq7vTz92LmXp4Rk⟫"\n',
    "the secret, and more\npassword,user\n⟪Hq7vTz92LmXp4Rk⟫,bob\n",
    "password:\n ⟪Hq7vTz92LmXp4Rk⟫\n",
    "\nDB_PASSWORD=⟪ab c(d9fK2⟫\n",
    "password:\n  - ⟪aB3x9Z⟫\n",
    "password:\n  - aB3x9\n",
    "password=''abc' or 'def'",
    "see https://bob:⟪passw0⟫@x.example now",
]


@pytest.mark.parametrize("text", TO_THE_SIGN)
def test_a_mask_begins_and_ends_with_its_secret(text: str) -> None:
    plain = text.replace("⟪", "").replace("⟫", "")
    assert _masked(plain) == re.sub("⟪(.*?)⟫", lambda found: "*" * len(found[1].encode()), text)


SHOWN: dict[str, str] = {  # how each line of a file is shown, with its number
    "grep -rn": "k8s/db-prod/app.yml:{n}:{line}",
    "what stands next to a line": "k8s/db-prod/app.yml-{n}-{line}",
    "grep -r": "./k8s/db-prod/app.yml:{line}",
    "cat -n": "{n:6d}\t{line}",
    "another number": "{n:5d}→{line}",
    "a diff that adds it": "+{line}",
    "git diff": "-{line}",
    "a grep of a diff": "a.diff:{n}:+{line}",
    "a comment": "# {line}",
    "a comment of C": "    // {line}",
    "a quote": "> {line}",
    "syslog": "Nov  7 10:00:00 host-1 app[12]: {line}",
    "a log with a time": "2026-11-17T10:00:00.123Z {line}",
    "docker compose": "web-1  | {line}",
}
OF_LINES: dict[str, str] = {  # found by what stands at the beginning of a line, or above it
    "a secret of Kubernetes": "kind: Secret\nmetadata:\n  name: x\nstringData:\n  smtp: {}\n",
    "CSV": "user,password,n\nann,{},1\n",
    "a table": " user | password\n------+----------\n bob  | {}",
    "Markdown": "| user | password |\n|---|---|\n| bob | {} |",
    "YAML": "db:\n  password:\n    {}",
    "a block of YAML": "password: >-\n  {}",
    "two lines of YAML": "name: DB_PASSWORD\nvalue: {}",
    "Redis": "requirepass {}",
    "netrc": "machine x.example\n  login bob\n  password {}",
    "a Dockerfile": "ENV API_TOKEN {}",
    "vault": "Key    Value\n---    -----\npassword    {}",
    "columns": "NAME   PASSWORD\nbob    {}",
    "pgpass": "db.internal:5432:prod:app:{}",
    "pgpass of anything": "*:*:*:*:{}",
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("what", OF_LINES)
@requirement("bundle:redaction-recall")
def test_a_value_is_masked_whatever_its_lines_are_shown_with(shown: str, what: str) -> None:
    lines = OF_LINES[what].format(OPAQUE).splitlines()
    text = "\n".join(SHOWN[shown].format(n=n, line=line) for n, line in enumerate(lines, 9))
    first = "@@ -1,9 +1,9 @@ first:" if shown == "git diff" else "first"
    assert _masked(f"{first}\n{text}\nlast\n") == f"{first}\n{text.replace(OPAQUE, '*' * len(OPAQUE))}\nlast\n"


def test_numbers_of_lines_make_no_table_of_code() -> None:
    code = ["def login(", "    user,", "    password", "):", "    return ask(user, password1=2)"]
    text = "".join(f"{n:6d}\t{line}\n" for n, line in enumerate(code, 1))
    assert _masked(text) == text


SIGNS = "Xk9&uT!q2(zP7w"
PHRASE = "correct horse battery staple"
BARE: dict[str, str] = {  # a value without quotes, and what stands after it
    "YAML": "db:\n  password: {}\n  host: x",
    "a list of YAML": "environment:\n  - DB_PASSWORD={}\n  - A=b",
    "properties": "spring.datasource.password={}\nspring.x=1",
    "INI": "[db]\npassword = {}  # of bob\nuser = a",
    "a small variable": "db_password={}\nA=b",
    "a diff": "+DB_PASSWORD={}\n-A=b",
    "grep": ".env:3:DB_PASSWORD={}\n.env:4:A=b",
    "a unit of systemd": 'Environment="DB_PASSWORD={}"\nA=b',
    "a list of JSON": '{{"Env": ["A=b", "DB_PASSWORD={}"], "A": "b"}}',
}
IN_A_WORD: dict[str, str] = {
    "a connection string": "Server=x;User Id=sa;Password={};Database=y",
    "Go": "{{User:bob Password:{} Host:x}}",
    "an error": "connection to user=bob password={} host=x failed",
    "an address": "https://x.example/y?user=a&password={}&z=1",
}


@pytest.mark.parametrize("where", [*BARE, *IN_A_WORD])
@pytest.mark.parametrize("value", [SIGNS, PHRASE, "a&8Kd92jslQzz", "p;4|s<5>w{0}r[d]\\Q"])
@requirement("bundle:redaction-recall")
def test_a_value_without_quotes_is_masked_to_its_end(where: str, value: str) -> None:
    form = BARE.get(where) or IN_A_WORD[where]
    if where in IN_A_WORD and value not in (SIGNS, "a&8Kd92jslQzz"):
        value = SIGNS + "|x"
    assert _masked(form.format(value)) == form.format("*" * len(value))


@pytest.mark.parametrize(
    "value",
    [
        "Q<OcMQ]!ulcfrid;!x",
        "SJ)uQFt*A0ArrugR[",
        "w;x1jqw=h6E^%E_hhur",
        "x<Zk2(Pw,9L^{",
        "4S{<]29Q</RS{.di9p",
        "(rKo!YwgMl4hS^",
    ],
)
@pytest.mark.parametrize("where", [one for one in BARE if "{{" not in BARE[one]] + ["an error"])
@requirement("bundle:redaction-recall")
def test_a_password_that_was_made_by_a_generator_is_masked_whatever_signs_are_in_it(where: str, value: str) -> None:
    form = BARE.get(where) or IN_A_WORD[where]
    assert _masked(form.format(value)) == form.format("*" * len(value))


@pytest.mark.parametrize(
    "text",
    ["the password: is wrong", "token = parse(x)", "password: str", "password: Optional[str] = None", "password: string;",
     "password: str = Field(default=None)", "def f(password=None, token=x):", "f(user=bob, password=pw, host=x)",
     "password = a if b else c", "password=$(cat /x | head)", "password = (a, b)", "if (password && other) {",
     "- password: a string", "password: () => void", "password?: string", "password[0] = x", "password = None  # nothing",
     "password=<your password>", "password: {get: x}", "curl 'https://x.example?password={password}&a=1'"],
)  # fmt: skip
def test_code_and_sentences_about_a_password_stay(text: str) -> None:
    assert _masked(text) == text


@pytest.mark.parametrize(
    ("text", "hidden"),
    [("password = getpass()", "getpass"), ("password = config.get('password', '')", "config.get"),
     ("password: must be at least 8 characters", "must"), ("const password = req.body.password;", "req.body.password"),
     ("password = os.environ['X']", "os.environ"), ("secret: !Ref Foo", "!Ref")],
)  # fmt: skip
def test_no_more_of_a_line_of_code_is_masked_than_its_first_word(text: str, hidden: str) -> None:
    assert _masked(text) == text.replace(hidden, "*" * len(hidden), 1)


WRITTEN: dict[str, str] = {
    "columns and rows": '{{"columns": ["user", "password"], "rows": [["bob", "{}"], [null, "{}"]]}}',
    "columns with types": '{{"schema": [{{"name": "n"}}, {{"name": "password"}}], "data": [[1, "{}"]]}}',
    "a list of rows": '[["user", "n", "password"], ["bob", 5, "{}"]]',
    "INSERT": "INSERT INTO users (name, `password`, n) VALUES\n ('bob', '{}', 1),\n (f(1), '{}', NULL);",
    "COPY": "COPY public.users (id, password) FROM stdin;\n1\t{}\n\\.\n",
    "jq -C": '\x1b[1;39m{{\n  \x1b[34;1m"password"\x1b[0m\x1b[1;39m:\x1b[0m \x1b[0;32m"{}"\x1b[0m\n}}',
    "a colour": "password: \x1b[32m{}\x1b[0m\n",
    "the next line of YAML": "db:\n  password:\n    {}\n  host: x\n",
    "the next line of YAML in quotes": 'password:\n  "{}"\n',
    "a block of YAML": "- secret: |-\n    {}\n    {}\n\n    {}\n  other: x\n",
    "TOML": 'password = """\n{}"""\nname = "x"\n',
    "CSV with blanks": "name, password\nbob, {}\namy, {}\n",
    "columns": "NAME   PASSWORD          AGE\n----   --------          ---\nbob    {}   5d\namy    {}\n",
    "an input of HTML": '<input type="password" name="pw" value="{}">',
    "an input of HTML, value first": '<input value="{}" id=x type="password"/>',
    "a table of HTML": "<tr><td>password</td>\n<td class=x> {} </td></tr>",
    "a form": 'Content-Disposition: form-data; name="password"\r\n\r\n{}\r\n--x',
    "a plist": "<key>db_password</key>\n\t<string>{}</string>",
    "CDATA": "<password><![CDATA[{}]]></password>",
    "a signature": "Authorization: AWS4-HMAC-SHA256 SignedHeaders=host, Signature=0123{}",
    "a store of parameters": '{{"Name": "/prod/db/password", "Type": "SecureString", "Value": "{}"}}',
    "a Dockerfile": "FROM x\nENV MYSQL_ROOT_PASSWORD {}\n",
    "a plugin of MySQL": "IDENTIFIED WITH mysql_native_password BY '{}'",
    "a network": 'network={{\n  psk="{}"\n}}',
    "a list of YAML": "password:\n  - {}\n  - {}\nname: x\n",
    "a list of YAML in the column of its name": "password:\n- {}\n- {}\nname: x\n",
    "R": 'db.password <- "{}"\n',
    "SET of SQL": "SET app.session_password TO '{}';\n",
    "a list of YAML in a block": "db:\n  passwords:\n  - {}\n  - {}\n- name\n",
    "value before name in YAML": "- value: {}\n  name: DB_PASSWORD\n",
    "vault": "Key         Value\n---         -----\nuser        bob\npassword    {}\n",
    "psql -x": "-[ RECORD 1 ]----\nuser     | bob\npassword | {}\n",
    "a table with drawn lines": "┌──────┬──────┐\n│ user │ password │\n├──────┼──────┤\n│ bob  │ {} │\n",
    "a record with drawn lines": "│ user     │ bob │\n│ password │ {} │\n",
    "a table of a cloud": "|  SecretAccessKey  |  {}  |\n",
    "a type in Python": 'password: str = "{}"\n',
    "a type in Go": 'const Password string = "{}"\n',
    "a type in Swift": 'let password: String = "{}"\n',
    "a macro": '#define DB_PASSWORD "{}"\n',
    "a constant of PHP": "define('DB_PASSWORD', '{}');",
    "what stands in for a variable": 'os.getenv("DB_PASSWORD", "{}")',
    "a setter": 'client.setPassword("{}");',
    "a key of .NET": '<add key="ApiPassword" value="{}" />',
    "JSON in HTML": "{{&quot;password&quot;:&quot;{}&quot;}}",
    "JSON in an address": "q=%7B%22password%22%3A%20%22{}%22%7D",
    "JSON in CSV": 'id,text\n1,"{{""user"": ""a"", ""api_key"": ""{}""}}"\n2,"{{""password"": ""{}""}}"\n',
    "JSON in JSON in CSV": '1,"{{""body"": ""{{\\""password\\"": \\""{}\\""}}""}}"\r\n',
    "a variable in CSV": '1,"export DB_PASSWORD=""{}""",x\n',
    "a line of code in HTML": "<pre>password = &quot;{}&quot;</pre>",
    "a dictionary in HTML": "<p>{{&#x27;password&#x27;: &#39;{}&#39;, &#x27;a&#x27;: 1}}</p>",
    "XML in HTML": "<pre>&lt;password&gt;{}&lt;/password&gt;</pre>",
    "an address in HTML": '<a href="https://x.example/b?a=1&amp;api_key={}&amp;b=2">b</a>',
    "pgpass of Windows": "db.example:5432:shop:app:{}\r\n",
    "a label in bold": "**Password:** {}\n- **DB password**: `{}`\n",
    "a token in bold": "- **Access Token**: `{}`\n",
    "a label in a cell in bold": "| **Password** | `{}` |\n",
    "a label in bold in HTML": "<b>Password:</b> {}<br>\n<li><strong>Password</strong>: <code>{}</code></li>",
    "a list of terms": "<dl><dt>Password</dt>\n<dd>{}</dd></dl>",
    "a value in a tag": "<p>Password: <code>{}</code></p>",
    "a label of words": "Pass phrase: {}\nPasscode: {}\n",
    "nodemailer": "auth: {{ user: 'a', pass: '{}' }}\nauth: {{ user: \"a\", smtp_pass: \"{}\" }}",
    "pass in YAML": "smtp:\n  user: a\n  pass: {}\n",
    "pass in an address": "GET /login?user=bob&pass={}&x=1",
    "pass in a log": "login user=bob pass={} ok",
    "pass in the environment": "EMAIL_PASS={}\nDB_PW={}\n",
    "rclone": "[remote]\nuser = bob\npass = {}\n",
    "pass in a flag": "tool --pass {} --user a\nplink -pw {} bob@h",
    "pass in XML": "<pass>{}</pass><pwd>{}</pwd>",
    "a property of Spring": '<property name="password">{}</property>',
    "an entry of Java": '<entry key="password">{}</entry>',
    "a string of Android": '<string name="api_key">{}</string>',
    "a setting of .NET": '<setting name="Password" serializeAs="String">\n<value>{}</value></setting>',
    "a property of Hadoop": "<property>\n<name>fs.s3a.secret.key</name>\n<value>{}</value>\n</property>",
    "the answers of Windows": "<Password>\n<Value>{}</Value>\n</Password>",
    "a password by a pipe": "echo {} | docker login -u bob --password-stdin\n",
    "chpasswd": "echo 'bob:{}' | sudo chpasswd",
    "az": "az login --service-principal -u app -p {} --tenant t",
    "aws": "aws configure set aws_secret_access_key {}",
    "npm": "npm config set //registry.example/:_authToken {}\n_auth={}==\n",
    "sqlcmd": "sqlcmd -S host -U sa -P {} -Q x",
    "sqlplus": "sqlplus scott/{}@ORCL",
    "smbclient": "smbclient //srv/share -U bob%{}",
    "flags of curl in one": "curl -sku bob:{} https://x.example",
    "httpie": "http -a bob:{} https://x.example",
    "PowerShell": "Connect-X -UserName a -Password {}",
    "NuGet": "nuget push a.nupkg -ApiKey {} -Source x",
    "mysqladmin": "mysqladmin -u root password {}",
    "rabbitmqctl": "rabbitmqctl add_user bob {}",
    "setx": "setx DB_PASSWORD {}",
    "gh": "gh secret set DB_PASSWORD --body {}",
    "an archive": "7z x -p{} a.7z\nzip -P {} a.zip b",
    "CONFIG SET": "CONFIG SET requirepass {}",
    "pandas": "   user  id         password\n0   bob   1  {}\n1   amy   2  {}\n",
    "a series of pandas": "user            bob\npassword    {}\nName: 0, dtype: object",
    "polars": "│ user ┆ password        │\n│ ---  ┆ ---             │\n│ str  ┆ str             │\n╞══════╪═════════════════╡\n│ bob  ┆ {} │\n",
    "a table of PowerShell": "UserName Password\n-------- --------\nbob      {}\n",
    "names and values in CSV": "name,value\nHOST,a\nDB_PASSWORD,{}\n",
    "names and values with tabs": "HOST\ta\nDB_PASSWORD\t{}\n",
    "a plan of Terraform": '  ~ password = "{}" -> "{}"\n',
    "T-SQL": "ALTER LOGIN sa WITH PASSWORD = N'{}'",
    "what stands in for a key": "const k = process.env.API_KEY || '{}'\n",
    "Swift": 'user: nil, password: Optional("{}")',
    "a form of Rails": "user%5Bpassword%5D={}&x=1",
    "ipsec": '%any 10.0.0.1 : PSK "{}"\n',
    "Redis": "requirepass {}\n",
    "the answer of Redis": '1) "requirepass"\n2) "{}"\n',
    "a switch": "enable secret 5 {}\n",
    "a user of a switch": "username bob privilege 15 password 0 {}\n",
    "Ansible": "host ansible_ssh_pass={} x=1\n",
    "LDAP": "bindpw {}\n",
    "a sentence with a colon": "Your temporary password is: {}",
    "a sentence": "logged in with password {} at noon",
    "nginx": 'proxy_set_header Authorization "Basic {}";',
    "Terraform": '{{"db": {{"sensitive": true, "type": "string", "value": "{}"}}}}',
    "Azure": '{{"id": "https://v.vault.azure.net/secrets/db/1", "value": "{}"}}',
    "another language": "密码：{}\nпароль: {}\n",
    "cookies": '{{"cookies": [{{"name": "session", "value": "{}"}}]}}',
    "the first start of MySQL": "[Note] A temporary password is generated for root@localhost: {}\n",
    "a reset of Elasticsearch": "Password for the [elastic] user successfully reset.\nNew value: {}\n",
    "the first start of Elasticsearch": "Password for the elastic user (reset with `bin/x -u elastic`):\n  {}\n",
    "the first start of Jenkins": "Please use the following password to proceed to installation:\n\n{}\n\nThis may",
    "a prompt of psql": "Password for user bob: {}\n",
    "a DSN of Go": 'sql.Open("mysql", "root:{}@tcp(127.0.0.1:3306)/db")',
    "JDBC": 'DriverManager.getConnection("jdbc:mysql://h/d", "root", "{}");',
    "PDO": "new PDO('mysql:host=h;dbname=d', 'root', '{}');",
    "mysqli": 'mysqli_connect("localhost", "root", "{}", "db")',
    "a driver of Python": 'pymysql.connect("h", "root", "{}", "db")',
    "Sequelize": "new Sequelize('db', 'user', '{}', {{ dialect: 'mysql' }})",
    "requests": "requests.get(u, auth=('bob', '{}'))\nHTTPBasicAuth(USER, '{}')\n",
    "smtplib": "server.login('me@x.com', '{}')",
    "Oracle": 'CREATE USER bob IDENTIFIED BY {};\nalter user bob identified by "{}";',
    "SET PASSWORD": "SET PASSWORD FOR 'bob'@'localhost' = '{}';",
    "Gradle": "        storePassword '{}'\n        keyPassword \"{}\"\n",
    "a variable of Terraform": 'variable "db_password" {{\n  type    = string\n  default = "{}"\n}}',
    "CloudFormation": "Parameters:\n  DBPassword:\n    Type: String\n    NoEcho: true\n    Default: {}\n",
    "kickstart": "rootpw --plaintext {}\n",
    "preseed": "d-i passwd/root-password password {}\nd-i passwd/root-password-again password {}\n",
    "salts": "define('AUTH_SALT',  '{}');\ndefine( 'LOGGED_IN_SALT', '{}' );\nNONCE_SALT='{}'\n",
    "secrets of .NET": 'dotnet user-secrets set "Db:Password" "{}"',
    "Pulumi": "pulumi config set dbPassword {} --secret\n",
    "make": "API_KEY ?= {}\n",
    "CMake": 'set(API_KEY "{}")',
    "a user and a password": "BASIC_AUTH=bob:{}\nDB_CREDENTIALS=bob:{}\ncredentials: bob:{}\n",
    "a user and a password in a note": "creds: bob / {}\n**Login:** bob:{}\n",
    "labels of Traefik": '- "traefik.http.middlewares.a.basicauth.users=bob:{}"',
    "netrc": "default login bob password {}\n",
    "HAProxy": "user bob insecure-password {}\n",
    "fetchmail": 'poll h proto imap user "bob" pass "{}"',
    "msmtp": "account a\nuser bob\npassword {}\n",
    "offlineimap": "remotepass = {}\n",
    "FTP": "---> USER bob\n<--- 331 Please specify the password.\n---> PASS {}\n<--- 230 Login successful.\n",
    "POP3": "USER bob\r\n+OK\r\nPASS {}\r\n+OK\r\n",
    "IMAP": 'a1 LOGIN bob {}\r\nC: A002 LOGIN "bob" "{}"\n',
    "SMTP": "C: AUTH PLAIN {}=\nS: 235 OK\n",
    "IRC": "PASS {}\r\nNICK bob\r\n/msg NickServ IDENTIFY {}\n",
    "expect": 'expect "assword:"\nsend "{}\\r"\n',
    "twine": "twine upload -u __token__ -p {} dist/*\npoetry publish -u a -p {}\n",
    "cqlsh": "cqlsh -u u -p {} h\nrabbitmqadmin -u guest -p {} list\n",
    "mosquitto": "mosquitto_pub -h h -u u -P {} -t t\n",
    "psexec": "PsExec64.exe \\\\srv -u dom\\bob -p {} cmd\n",
    "FreeRDP": "xfreerdp /u:bob /p:{} /v:h\nsigntool sign /f a.pfx /p {} a.exe\n",
    "ssh-keygen": "ssh-keygen -t ed25519 -N '{}' -f k\nssh-keygen -p -P {} -f k\n",
    "htpasswd": "htpasswd -nb bob {}\nhtpasswd -nbB bob {} > f\n",
    "a parameter of AWS": "aws ssm put-parameter --name /p --type SecureString --value {}\nput-parameter --value {} --type SecureString",
    "nmcli": "nmcli dev wifi connect home password {}\n",
    "a secret by a pipe": "echo {} | docker secret create n -\necho {} | sudo -S ls\n",
    "net user": "net user bob {} /add\n",
    "SNMP": "snmpwalk -v2c -c {} h\nsnmpget -v3 -u bob -A {} -X {} h\n",
    "etcdctl": "etcdctl --user root:{} get k\n--user=root:{}\n",
    "a table of HTML with names above": (
        "<table>\n<thead><tr><th>User</th>\n<th class=x>Password</th></tr></thead>\n"
        "<tr><td>bob</td><td><b>{}</b></td></tr>\n<tr><td></td>\n<td>\n{}\n</td></tr></table>"
    ),
    "a table of a cloud in a table": "||  SecretAccessKey |  {}   ||\n",
    "users of Redis": "user bob on >{} ~* +@all\nACL SETUSER bob on >{} ~*\n",
    "passwords of Postfix": "[smtp.example.com]:587 bob@example.com:{}\n",
    "Dovecot": "bob:{{PLAIN}}{}\n",
    "a network as a picture": "WIFI:T:WPA;S:home;P:{};;",
    "a token in the head of a page": '<meta name="csrf-token" content="{}">',
    "CVS": ":pserver:bob:{}@h:/cvs",
    "names that are lined up": "  password                              = \"{}\"\n'password'                           =>  '{}',\n",
    "YAML on one line": '- {{name: DB_PASSWORD, value: "{}"}}\n- {{ value: {}, x: 1, "name": "API_KEY" }}\n',
    "YAML with comments": "- name: DB_PASSWORD # of it\n\n  # here\n  value: {}\n- value: {}\n\n  name: API_KEY\n",
    "declarations with a type": (
        'const PASSWORD: &str = "{}";\npub static API_KEY: &\'static str = "{}";\nconst password: []const u8 = "{}";\n'
    ),
    "arrays of C": 'char password[] = "{}";\n',
    "a type of TypeScript": "  password?: string = \"{}\"\n  apiKey!: string | undefined = '{}';\n",
    "INSERT in other forms": (
        "INSERT LOW_PRIORITY IGNORE INTO u (id, password) VALUES (1, '{}');\n"
        "INSERT [dbo].[my users] ([id], [password]) VALUES (1, N'{}');\n"
        "INSERT INTO u (id, password) OVERRIDING SYSTEM VALUE VALUES (1, '{}');\n"
    ),
    "COPY of CSV": (
        'COPY u (id, password) FROM stdin WITH (FORMAT csv);\n1,"{}"\n\\.\n'
        "copy u (id, password) from stdin (format csv, delimiter ';');\n1;{}\n\\.\n"
    ),
    "INSERT with other quotes": 'INSERT INTO users (id, name, password) VALUES (1, "b\\"ob", "{}"), (2, "amy", "{}");',
    "INSERT of what is selected": "insert into users (name, password) select 'bob', '{}' from a where b = 'c';",
    "a dump of MySQL": (
        "CREATE TABLE `users` (\n  `id` int(11) NOT NULL DEFAULT '1,2',\n  `n` int CHECK (length(`n`) > (3)),\n"
        "  `password` varchar(40),\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB;\n"
        "INSERT INTO `users` VALUES (1,2,'{}'),(2,3,'{}');\n"
    ),
    "a dump of SQLite": "CREATE TABLE IF NOT EXISTS \"users\"(id, password);\nINSERT INTO users VALUES(1,'{}');\n",
    "a dump of PostgreSQL": "CREATE TABLE public.users (\n    id integer,\n    password text\n);\nCOPY public.users FROM stdin;\n1\t{}\n\\.\n",
    "a dump of PHP": '["password"]=>\n  string(14) "{}"\n',
    "a value on the next line": 'const password =\n  "{}";\nPASSWORD = (\n    "{}"\n)\n',
    "what stands in for nothing": '$ENV{{PASSWORD}} = "{}"; password ||= "{}"\ngetenv("DB_PASSWORD") ?: "{}"\n',
    "a hash of Redis": '3) "password"\n4) "{}"\n',
    "what is taken if there is no argument": 'add_argument("--password", default="{}")\nENV.fetch("DB_PASSWORD") {{ \'{}\' }}\n',
    "a variable of T-SQL": "DECLARE @Password NVARCHAR(50) = N'{}'",
    "braces of C": 'std::string password{{"{}"}};\nstring Password {{ get; set; }} = "{}";\n',
    "CSV with the sign of UTF-8": "\ufeffpassword,name\n{},bob\n",
    "CSV with empty lines": "name,password\r\n\r\nann,{}\r\n\r\nbob,{}\r\n",
    "CSV with lines in a cell": 'name,note,password\nann,"a ""note""\nof, two lines",{}\nbob,"5"" wide",{}\n',
    "an object of JSON within such a name": '{{"password": {{"primary": "{}", "old": [{{"a": "{}"}}]}}}}',
    "names of YAML below such a name": 'db:\n  password:\n    # of it\n    user: bob\n    value: {}\n    other: "{}"\n  host: x\n',
    "a list on a line": 'api_keys = ["{}", "{}"]\npasswords: [aaa, {}]\n',
    "a list on lines": "API_KEYS = [\n  'aaa',\n  '{}',\n]\n",
    "a table on a line": 'PASSWORDS = {{"a": "x", "b": "{}"}}\nsecrets = {{ a = "{}", b = 1 }}\n',
    "a file of FileZilla": '<Pass encoding="base64">{}</Pass>',
}


def test_all_of_a_list_of_users_is_masked() -> None:
    hidden = _masked(f"chpasswd:\n  list: |\n    root:{OPAQUE}\n    bob:{PASSWORD}\nname: root:x\n")
    assert OPAQUE not in hidden
    assert PASSWORD not in hidden
    assert hidden.endswith("\nname: root:x\n")


@pytest.mark.parametrize("where", WRITTEN)
@requirement("bundle:redaction-recall")
def test_a_value_is_masked_where_programs_write_it(where: str) -> None:
    form = WRITTEN[where]
    values = [OPAQUE, "Kq8wPz37VnTx2Lm", "Tr0ub4dor-and-3"][: form.count("{}")]
    hidden = _masked(form.format(*values))
    assert [one for one in values if one in hidden or one[1:-1] in hidden] == []
    if where != "a signature":
        assert hidden == form.format(*("*" * len(one) for one in values))


# Where a program or a sentence says the word, and nobody chose it as a name; where its length tells where a column is.
NO_NAMES = (
    "a password by a pipe", "PowerShell", "mysqladmin", "pandas", "a user of a switch", "a sentence with a colon", "a sentence",
    "the first start of MySQL", "a reset of Elasticsearch", "the first start of Elasticsearch", "the first start of Jenkins",
    "a prompt of psql", "SET PASSWORD", "preseed", "netrc", "HAProxy", "nmcli",
)  # fmt: skip
# Where more than one is the name of a list, or what is under it is taken whatever it looks like.
OF_ONE = (
    "columns and rows", "columns with types", "a list of rows", "a store of parameters", "YAML on one line",
    "an object of JSON within such a name",
)  # fmt: skip
OF_TOKENS: dict[str, str] = {
    **{
        where: form.replace("passwords", "password").replace("PASSWORDS", "PASSWORD")
        for where, form in {**WRITTEN, **BARE, **IN_A_WORD}.items()
        if "password" in form.lower() and where not in NO_NAMES
    },
    "CSV": "id,name,password,created\n1,bob,{},2025\n",
    "psql": " id | password \n----+----------\n  1 | {}\n",
    "mysql": "+----+----------+\n| id | password |\n+----+----------+\n|  1 | {} |\n+----+----------+\n",
    "Go": 'password := "{}"\n',
    "a block": "password: |\n  {}\n",
    "a list of JSON": '{{"password": ["{}"]}}',
    "an object of JSON": '{{"password": {{"bob": "{}"}}}}',
}


@pytest.mark.parametrize(
    ("where", "around"),
    [
        *itertools.product(("CSV", "psql", "mysql", "a block"), ("\r\n", "\ufeff")),
        *itertools.product(("psql", "mysql", "a block"), "\t"),
    ],
)
@requirement("bundle:redaction-recall")
def test_ends_of_lines_of_a_terminal_tabs_before_lines_and_the_mark_of_utf_8_hide_no_secret(
    where: str, around: str
) -> None:
    lines = OF_TOKENS[where].format(PASSWORD)
    text = lines.replace("\n", around) if around == "\r\n" else around + lines
    text = text.replace("\n", "\n\t") if around == "\t" else text
    assert PASSWORD not in _masked(text)


@pytest.mark.parametrize(
    "before",
    [
        "\ufeff",
        "\ufeff\ufeff",
        "first\n\ufeff",
        "redis.conf:1:\ufeff",
        "web-1  | \ufeff",
        "2026-01-01T10:00:00.123456789Z stdout F ",
        "[pod/web-0/app] ",
    ],
)
@requirement("bundle:redaction-recall")
def test_what_stands_before_a_line_hides_no_secret_in_it(before: str) -> None:
    assert PASSWORD not in _masked(f"{before}requirepass {PASSWORD}\n")


@pytest.mark.parametrize("before", ["", "2026-01-01T10:00:00Z ", "Jan  1 10:00:00 ", "[pod/a/b] 2026-01-01T10:00:00Z "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@requirement("bundle:redaction-recall")
def test_lines_of_yaml_with_times_and_empty_lines_hide_no_secret(before: str, end: str) -> None:
    entry, block = ("- name: DB_PASSWORD", "  value: {}"), ("- password: |", "    a b", "", "    {}")
    for lines in (entry, block, ("password: |", "", "  {}")):
        text = "".join(f"{before}{line}{end}" for line in lines).format("Hq7vTz92LmXp4Rk")
        assert "Hq7vTz92LmXp4Rk" not in _masked(text)


@pytest.mark.in_full(one_in=5)
@pytest.mark.parametrize(
    ("where", "name"),
    [(where, name) for where in OF_TOKENS for name in ("token", "api_token", "DeployToken")]
    + [(where, name) for where in OF_TOKENS for name in ("tokens", "apiTokens") if where not in OF_ONE],
)
@requirement("bundle:redaction-recall")
def test_a_token_is_masked_wherever_a_password_is(where: str, name: str) -> None:
    constant = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper()
    form = OF_TOKENS[where].replace("PASSWORD", constant).replace("Password", name[:1].upper() + name[1:])
    form = form.replace("password", name)
    for values in (["Kq8wPz37VnTx2L", OPAQUE, "0ce5b1bbe792eb654e1b"], [RANDOM[:40], RANDOM[20:60], DIGITS[:32]]):
        hidden = _masked(form.format(*values))
        assert [one for one in values[: form.count("{}")] if one in hidden] == []


@pytest.mark.parametrize(
    "text",
    ["max_tokens: 4096", "tokens: 1234", '{"tokens":["the","cat"]}', "tokenizer: Xk9qLm2Pz7Wd4R8s", "token_type: Bearer",
     "id,tokens,model\n1,4096,gpt-4o-2024-08-06\n2,311,claude-sonnet-4-5-20250929\n", "id,tokens\n1,the cat\n2,GPT4o\n",
     'next_page_token: ""', "tokens: [1, 2, 3]", '{"usage": {"input_tokens": 1234567, "output_tokens": 123456789012}}',
     "token_count=4096 tokens_used=1234567890123", "| tokens | model |\n|---|---|\n| 12,345 | gpt-4o-2024-08-06 |",
     'eos_token = "<|im_end|>"', "20,000 lines · 99,001 tokens (text)", "tokens: 12.3k (2025-01-01T10:00:00.123Z)",
     "tokens = tokenizer.encode(text2, add=True)", "tokens: 12345678901234567890", "tokens per second: 12.5tok/s",
     '{"tokens":["Ġthe","##ing","<s>","GPT4o","▁Hello"]}', 'tokens = ["print", "(", "x1", ")"]', "token := p.next2Token()",
     '{"tokens": {"colorBlue500": "neutralForeground2BrandHover"}}', "tokens:\n  primary500: Blue500Light\n  radius: 4px\n",
     '{"tokens": [{"mint": "Kq8wPz37VnTx2LmXp4Rk"}]}', "NAME  TOKENS      MODEL\na     1234567890  gpt-4o\n",
     "Your API token is invalid2", "Token is expired (JWT-RS256)"],
)  # fmt: skip
def test_tokens_of_a_text_and_their_counts_stay(text: str) -> None:
    assert _masked(text) == text


@pytest.mark.parametrize(
    "text",
    ['[["password", "username"], ["token"]]', '{"columns": ["user", "n"], "rows": [["bob", "Hq7vTz92LmXp4Rk"]]}',
     "INSERT INTO users (name) VALUES ('Hq7vTz92LmXp4Rk');", "INSERT INTO u (name, password) SELECT 'bob', $1 FROM t WHERE n = 'Hq7vTz92LmXp4Rk';",
     "CREATE TABLE a (id, password);\nINSERT INTO b VALUES (1, 'Hq7vTz92LmXp4Rk');", "create table a(password) and insert into it values", "Args:\n    password:\n        The password of the user.\n",
     "password:\n  type: string\n", "password:\n  - string\n",
     "- password:\n- Hq7vTz92LmXp4Rk\n", "password:\n- string\n", "NAME      SECRETS   AGE\ndefault   1         5d\n",
     "SECRET    FILES\nsrc/a.py  12\n", "user, password\nhost, port\n", "    user, password,\n    host, port1234,\n",
     "<tr><td>password</td><td>required</td></tr>", '<input type="password" name="x">', "\x1b[32mpassword\x1b[0m is wrong",
     '{"name": "/src/a/b.py", "value": "Hq7vTz92LmXp4Rk"}', "detect-secrets    1.5.0-beta12\nkeyring    25.1\n",
     "login with password authentication", 'password_label: str = "Password"', "| secret_count | 12 |\n",
     'define("PASSWORD_KIND", "required")', '{"content": "abcdefghijklmnop"}',
     "a password is required for user bob: see the manual\n", "Password for user bob: \nnext\n", "the default password for all users\n",
     "Changed password for user 'bob': OK\n", "Enter the following password:\n\nThen press Enter2continue now\n",
     "sql.Open(driver, dsn)", "x@tcp(127.0.0.1:3306)", 'button.connect("clicked", "on_clicked_2")', 'connect("localhost", "root", password, "db1")',
     "requests.get(u, auth=(user, pw))", "login(request, user)", "login('bob', 'required')", "each is identified by user_id and name2",
     "identified by its sha256 sum", "SET PASSWORD FOR bob = $1", 'storePassword System.getenv("X")', 'println "Password" "wrong"', 'take("secret " * 20_000, tool="x")',
     'variable "db_password" {\n  type = string\n}\nvariable "name" {\n  default = "a1B2c3D4e5"\n}',
     "DBPassword:\n  Type: String\nDBName:\n  Default: a1B2c3D4e5\n", "BASIC_AUTH=true", "credentials: same-origin",
     "credentials: include:cookies", "login: 2026-11-18T10:00:00.123Z", "login=github:login2", "auth: image@sha256:0ce5b1bbe792eb654e1ba5ff071e",
     "docker run --user 1000:1000 x", "docker run --user $(id -u):$(id -g) x", "user bob password authentication", "user bob pass id=1a0503d8",
     "login config id=1fcdf833\n12 LOGIN config id=1fcdf833a\n", "USER bob\nPASS src/base64url.test.js failed here\n",
     "PASS src/base64url.test.js\nPASS src/other2be.test.js\n", "250-AUTH PLAIN LOGIN OAUTHBEARER\n", "AUTH PLAIN XOAUTH2\n",
     "twine upload -p $PYPI_TOKEN dist/*", "mkdir -p a1B2c3D4", "scp -P 2222a1B2 h:", "docker run -p 8080:80 twine", "snmpwalk -v2c -c public h",
     "ssh-keygen -t ed25519 -f k2b3c4d5", "msbuild /p:Configuration=Release2b", "htpasswd -n bob", "aws ssm put-parameter --type String --value a1B2c3",
     "echo hello2b | sudo tee f2b", "net user", "net user bob /delete", "pulumi config set aws:region eu1-b2c3d4", "nmcli dev wifi list2b",
     "<tr><th>User</th><th>Password</th></tr><tr><td>bob</td><td></td></tr>", "<table><tr><td>a</td><td>a1B2c3D4e5</td></tr></table>",
     "see https://deploy-service-account@h.example/x", "https://h.example/?auth=required", "encrypt = true", 'encrypt: "aes-256-gcm"',
     "the user on >output.txt", "mail bob@example.com: see below", "[client.admin]\n\tkeyring = /etc/ceph/a1B2c3D4\n",
     '{"login": "bob", "encrypt": "required", "id_salt": "none"}', "password required. See\n4f2a9c1e for more\n",
     "- {name: DB_PASSWORD, valueFrom: {secretKeyRef: {name: x1B2}}}\n", "- {name: HOST, value: a1B2c3}\n",
     'def f(password: str, name: str = "a1B2c3") -> None:', 'const PASSWORD_LABEL: &str = "Password";',
     "name,password\nbob,\n\nage,length2b\n", "name,password\n\nann,required\n", "insert a note (on the password) values it",
     '{"token": {"type": "bearer", "kid": "a1B2c3D4e5F6", "created_at": "2026-11-18T10:00:00.123Z"}}',
     '{"secret": {"arn": "arn:aws:x:us-east-1:1:db-aB1cD2", "note": "of app-7"}}',
     "password:\n  from: db-pass1\n  id: a1B2c3D4e5F6\n  minLength: 8\n", "secrets:\n  db_password:\n    file: ./a1B2c3D4e5.txt\n",
     'f(PASSWORDS = ["required", "new_password2"])', 'secrets = {"path": "a1B2c3D4e5F6", "n": "required"}',
     "tokens = [token_1, token_2]", "const { password, a1B2c3D4 } = x"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_stands_near_such_a_name_and_is_no_value_stays(text: str) -> None:
    assert _masked(text) == text


LABELS = [
    "API Key: {}", "Secret Key: {}", "- **Access Key**: `{}`", "Private Key: {}", "**Encryption Key:** {}", "AZURE_OPENAI_KEY={}",
    "AZURE_STORAGE_KEY={}", "APP_KEY=base64:{}", "FERNET_KEY={}", "JWT_KEY: {}", "HMAC_KEY={}", "x-functions-key: {}",
    "Ocp-Apim-Subscription-Key: {}", "Pre-Shared Key (PSK): {}", '{{"primaryKey": "{}"}}', '{{"key1": "{}"}}', "PresharedKey = {}",
    '[{{"keyName": "key1", "permissions": "FULL", "value": "{}0123456789"}}]', '<machineKey validationKey="{}" decryptionKey="x" />',
    '<machineKey decryptionKey="{}" />', "[client.admin]\n\tkey = {}==\n", '{{"encrypt": "{}=="}}', 'encrypt = "{}"', "vault login {}",
    "git clone https://{}@github.com/a/b.git", "TELEGRAM_BOT_TOKEN=123456789:{}", 'api_key: ApiKey("{}")', "wss://h/ws?auth={}&a=b",
    "SET PASSWORD = PASSWORD('{}')", "pulumi config set --secret dbPassword {}", "MAILGUN_KEY={}", "your API key is {}",
]  # fmt: skip


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("value", ["iK2ZWeqhFWCEPyYngFb51yBMWXaSCrUZ", "a778541eb4791def15cfa985bb2d7b3b"])
@requirement("bundle:redaction-recall")
def test_a_key_is_masked_below_a_label_of_words(form: str, value: str) -> None:
    assert value[4:] not in _masked(form.format(value))


@pytest.mark.parametrize(
    "text",
    ["pass: 12 tests", "key: value", "PASS src/x.test.js", "PASS: test_login (0.12s)", "--- PASS: TestX/sub_case#01 (0.00s)",
     "PASS: TestFoo2Bar", "PASS: TestS3UploadsLarge", "PASS [  0.123s] crate::mod::test_name_2", "pass: 12/12", "pass=100.0%", "pass=3.5ms", "pass: v1.2.3",
     "second_pass = optimize_v2", "render_pass: shadowMap", "--pass 2", "--two-pass encoder", "pass:test_foo.py::test_bar2",
     "pass: process.env.SMTP_PASS", "pass: ${SMTP_PASS}", "auth: { user, pass }", "pass: config.smtp.pass", "pass = getpass.getpass()",
     "az login -p", "aws configure set region us-east-1", "wget https://x.example/a.zip -P /tmp/dir2", "echo hello2 | docker ps",
     "echo $TOKEN2 | docker login --password-stdin", "sqlplus /nolog", "Get-X -Password $pw1 -Token $t1", "setx PATH C:\\Tools2",
     "git push https://x.example -a main:main2", "mysqladmin -u root status2", "rabbitmqctl list_users 12", "cp a.7z -p b12",
     "_auth = HTTPBasicAuth2", "npm config set registry https://r.example/npm1", "cargo login --registry mine2",
     "name,value\nsecret_name,my-secret-2\n", "DB_PASSWORD,required", "token_count\t4096", "python-secrets    1.5.0-beta12", "my-secret  Opaque",
     "Name     Secrets\n----     -------\ndefault  rotated\n", "UserName PasswordAge\n-------- -----------\nbob      12 days\n",
     "    user  password_changed\n0    bob             False\n", "the password of bob\n--- --- ---\nis not Hq7vTz92 here\n",
     "Primary Key: id", "PRIMARY KEY: (id, created_at)", "| Primary Key | id |", "primaryKey: user_id", "Access Key: see docs",
     "API Key: required", "API key: see https://example.com/docs/api-keys2", "Private Key: RSA-2048", "App key: com.example.MyApp2",
     "Private key: /etc/ssl/private/key.pem", "Storage key: users/1234/avatar.png", "session key: current_user_id_2", "Shared key: Ctrl+K",
     "cache_key: 4f2a9c1e0b7d6a5f8c3e2d1b0a9f8e7d6c5b4a39", "ssh_key_path: /home/bob/.ssh/id_ed25519", "**Password:** required",
     "**Password**: min 8 characters", "- **API Key**: see settings", "**Token:** JWT-based auth", "<b>Password:</b> required",
     "<dt>Password</dt><dd>The password of the user</dd>", '<property name="password">${db.password}</property>',
     '<string name="password_hint">At least 8 characters</string>', "<name>dfs.token.max</name><value>4096</value>",
     "| Name | Access Key | Age |\n|---|---|---|\n| bob | none | 5 |", "| Tokens | 1234567 |", "<td>tokens</td><td>1234567</td>"],
)  # fmt: skip
def test_what_only_stands_below_a_label_of_much_else_stays(text: str) -> None:
    assert _masked(text) == text


@requirement("bundle:redaction-recall")
def test_all_of_a_value_in_quotes_is_masked_though_it_reads_like_a_list() -> None:
    assert _masked('password=\'["ab", "cd"]\';') == "password='************';"


@pytest.mark.parametrize("value", ["m1AMWjyORIJ0FJN6", "JZEr4H246YpxZryc"])
@pytest.mark.parametrize("form", ["pass = {}\n", 'process.env.DB_PASSWORD || "{}"', "APP_KEY={}"])
@requirement("bundle:redaction-recall")
def test_a_value_whose_letters_change_seldom_is_no_word(form: str, value: str) -> None:
    assert value not in _masked(form.format(value))


@pytest.mark.in_full(one_in=3)
@pytest.mark.skipif(not PLANT.is_file(), reason="the planted secrets of ../shared/redaction are not here")
@pytest.mark.parametrize("seed", range(1, 9))
@requirement("bundle:redaction-recall")
def test_planted_secrets_are_masked_and_what_looks_like_one_is_not(tmp_path: Path, seed: int) -> None:
    subprocess.run([sys.executable, PLANT, str(seed)], cwd=tmp_path, check=True)
    planted = json.loads((tmp_path / "plant.json").read_text())

    for mask in (_masked, _masked_line_by_line):

        def leaks(line: str, secrets: list[str], mask: Callable[[str], str] = mask) -> bool:
            hidden = mask(line)
            return any(one[at : at + 8] in hidden for one in secrets for at in range(max(1, len(one) - 7)))

        missed = [name for name, secrets, line in planted["S"] if leaks(line, secrets)]
        assert len(planted["S"]) - len(missed) >= 113, missed
        assert [name for name, line in planted["N"] if mask(line) != line] == []


def _masked_line_by_line(text: str) -> str:
    """As somebody reads it while it is written."""
    masker = Masker(RULES.find)
    lines = [masker.feed(line) + masker.lines() for line in text.encode().splitlines(keepends=True)]
    return b"".join([*lines, masker.finish()]).decode()


def test_a_key_that_is_read_while_it_is_written_is_one_secret() -> None:
    body = base64.encodebytes(Random(5).randbytes(900))
    lines = [
        b"-----BEGIN PRIVATE KEY-----\n",
        *body.splitlines(keepends=True),
        b"-----END PRIVATE KEY-----\n",
        b"done\n",
    ]
    masker, given = Masker(RULES.find), b""
    for line in lines:
        given += masker.feed(line) + masker.lines()
        assert given.count(b"\n") == b"".join(lines).count(b"\n", 0, len(given))
        assert not any(one.strip() in given for one in body.split())
    given += masker.finish()
    assert given.endswith(b"\ndone\n")
    assert len(given) == len(b"".join(lines))
    assert len(masker.findings) == 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_text_as_windows_writes_it_is_looked_at_too(encoding: str) -> None:
    data = f"first\r\nDB_PASSWORD={PASSWORD}\r\nlast: ü\r\n".encode(encoding)
    hidden = masked(data, merged(RULES.find(data)))
    secret = PASSWORD.encode(encoding.replace("utf-16", "utf-16-le") if encoding == "utf-16" else encoding)
    assert hidden == data.replace(secret, b"*" * len(secret))


def test_every_rule_of_the_set_is_used() -> None:
    assert RULES.left_out == []


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "text",
    ["-----BEGIN PRIVATE KEY-----\n" * 10_000, "-----BEGIN PRIVATE KEY-----\n" + "a" * 250_000 + "!", "kind: Secret\n" * 20_000,
     "curl -u a:" * 25_000, "<password>" * 25_000, "kind: Secret\ndata:\n k: " + "a" * 250_000 + "!",
     "eyJ" * 100_000, "://" * 100_000, "sk-" + "a" * 250_000, "//x" * 100_000, "password=" * 30_000, '\\"' * 125_000,
     "".join("password=" + "\\" * k + "'" for k in range(250)) * 30,
     "".join(Random(3).choices(["docker login -p", " x", " sshpass", " -p y23", " curl -u", " a:b23", " mysql"], k=40_000)),
     "a,password\n" * 22_500, "password," * 27_500, "password|\n" * 25_000, 'password,"' * 25_000, "name: password\n" * 17_500,
     '[["' * 80_000, "password:\n" * 25_000, "password: |\n  a\n" * 16_000, "insert into a (password) values ('abc')\n" * 6_500,
     "a  password\n" * 21_000, "\x1b[32ma\x1b[0mb " * 21_000, '["-a","bcdefgh"],' * 15_000, '{"a":"{\\"b\\":\\"c\\"}"},' * 11_000,
     "pwd " * 60_000 + "\n-- --\n", "a pwd\n-- ---\n" * 19_000, "  pwd" * 100 + "\n" + ("a" * 505 + "\n") * 490,
     "mysqladmin gh secret set -b " * 9_000, "echo a |" * 31_000, "zip -P 7z -p http -a " * 12_000, ":_authToken " * 20_000,
     "'\"'\"'" * 50_000, " '\"'\"'a" * 35_000, " ''" * 80_000, " 'a''b" * 40_000, ' "a""b' * 40_000, " '\\''" * 50_000, "\\ " * 125_000,
     " -p'a b'" * 30_000, " -p 'a\"b" * 30_000, "a:1:" * 60_000, "a/b:" * 60_000, "a-1-" * 60_000, "1\ta\n" * 60_000, "+a\n-b\n" * 40_000,
     "@@ \n+a\n" * 35_000, "2026-01-01 a b: " * 15_000, "a | " * 60_000, "Private-Lines: 1\n" * 14_000, "\x1b" * 100_000 + "[m" * 75_000,
     "a\x08" * 125_000, "\x1b(B" * 80_000, "a:22:b:c:" * 27_000, "a." * 125_000, "#" * 250_000, "# " * 125_000, " # a\n" * 50_000,
     "api key" * 35_000, "pass" + "*" * 250_000, "pass: " * 41_000, "password<b>" * 22_500, "pass: " + "aB" * 125_000, "a_" * 125_000,
     '1,"a""b=""c"\n' * 17_500, ',"""' * 62_500, ',"""a=""' * 31_000, "&amp;" * 50_000, "&quot;password&quot;: " * 11_000,
     "USER a\n" * 36_000, "USER a\nPASS " * 19_000, "password for " * 19_000, "password a:\n" * 20_000, "login(a, " * 28_000,
     "variable \"password\" {" * 11_000, "password:\n a: b\n" * 15_000, "<td>password</td>" * 15_000, "<tr" * 83_000, "<th>pwd</th>" + " " * 250_000,
     "put-parameter --value a " * 10_500, "user a on " * 25_000, "snmpget -c " * 22_000, "credentials: a:" * 16_000, "chpasswd:\n list:\n a:b" * 12_000,
     "\\" * 250_000, "-----BEGIN PRIVATE KEY-----\n" + "\\" * 250_000, "-----BEGIN PRIVATE KEY-----\n" + "\\/" * 125_000,
     '"kind":"Secret""data":{"a":"bcdef"' * 7_500, "password='\"`" * 21_000, '{"data":{"a":"bcd"},' * 13_000,
     "password" + " " * 250_000, "password    " * 21_000, "name: password #\n\n" * 14_000, "{name: password, " * 15_000, "{value: ab, " * 21_000,
     "password: a " * 21_000, "password[a" * 25_000, "insert into a " * 18_000, "insert [a(" * 25_000, 'a,password\n"b\n' * 17_000,
     "a,password\n\n" * 20_000, 'password=["a",' * 18_000, "password=[a,\n" * 19_000, 'password={"' * 23_000, "password:\n  a: b\n" * 14_000,
     "".join(" " * n + "password:\n" for n in range(600)), "password:\n" + "  a: b1\n" * 30_000, '{"password":{"a":"aB1cD2e"},' * 9_000,
     "create table a(b " * 15_000, "create table a(b '" * 14_000, "create table a(b, c);insert into a values(1);" * 5_500,
     "insert into a (password) select 'abc' " * 6_500, 'insert into a values ("' * 11_000, "create table a(" + "b (" * 80_000,
     "password {get;" * 18_000, "password => string(1" * 12_500, "password =\n" * 22_500, "token := " * 27_000, "a,tokens\n" * 27_000, '{"tokens":["aB1cD2eF3g",' * 10_000],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_no_text_makes_the_rules_slow(text: str) -> None:
    """A quarter of a megabyte of the beginnings of secrets: an engine that goes back over it would take many minutes."""
    in_effort(500, lambda: RULES.find(text.encode()))


@pytest.mark.parametrize(
    "text", ["\0-", "\\n", "&lt;", "\x1b=", "_\x08", ">\n", "-\n", "-\\n ", "- '' ", "','-", '"-a","b",', '"a""=""b",', "<td>pwd</td>"], ids=repr
)  # fmt: skip
def test_no_text_makes_the_rules_hold_many_times_its_size(text: str) -> None:
    """Of nothing but signs that read otherwise than they are written: a list of them all would take 200 times as much."""
    data = (text * (60_000 // len(text))).encode()
    RULES.find(data[:1000])
    tracemalloc.start()
    try:
        RULES.find(data)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(data)
    finally:
        tracemalloc.stop()


def test_many_names_on_one_line_take_little_time() -> None:
    """The rest of the line is looked at behind each of them."""
    in_effort(250, lambda: RULES.find(("://" + "password:)" * 25_000).encode()))


@pytest.mark.parametrize("form", ["base64", "hex", "lines"])
def test_long_random_text_takes_little_time(form: str) -> None:
    """A hook that looks for too long is ended, and the result stays as it was."""
    noise = Random(7).randbytes(300_000)
    text = (
        noise.hex().encode()
        if form == "hex"
        else {"base64": base64.b64encode, "lines": base64.encodebytes}[form](noise)
    )
    in_effort(60, lambda: RULES.find(text))


def test_one_line_of_many_megabytes_is_masked_at_every_border_of_a_window() -> None:
    line = bytearray(b'{"k":"' + b"x" * 3_200_000 + b'"}')
    places = range(1_048_576 - 60, 3_200_000, 262_139)
    for place in places:
        line[place : place + len(TOKEN) + 2] = b" " + TOKEN.encode() + b" "
    data = bytes(line)
    masker = Masker(RULES.find)
    hidden = b"".join(masker.stream(data[at : at + 65_536] for at in range(0, len(data), 65_536)))
    assert hidden == data.replace(TOKEN.encode(), b"*" * len(TOKEN))
    assert len(masker.findings) == len(places)


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("form", ["key in a log", "Secret of Kubernetes"])
def test_what_gives_a_secret_away_may_stand_before_the_border_of_a_window(form: str) -> None:
    lines = [base64.b64encode(hashlib.sha384(b"%d" % n).digest()).decode() for n in range(60)]
    before = "2026-11-16T10:00:00.000Z pod/web-5d9c7b9f6c-abcde host=ip-10-0-0-1 level=info msg= "
    written = "\n".join(f"{before}{line}" for line in lines)
    text = f"{before}-----BEGIN RSA PRIVATE KEY-----\n{written}\n{before}-----END RSA PRIVATE KEY-----\n"
    if form != "key in a log":
        text = f"---\napiVersion: v1\nkind: Secret\ndata:\n  tls.crt: {''.join(lines[:59] * 2)}\n  words: {lines[59]}\n"
        lines = lines[59:]
    step = 64 * 1024
    filling = b"nothing here at all\n" * 8000
    for start in range(step - len(text), step, 1000):
        data = filling[: start - 1] + b"\n" + text.encode() + filling
        given = b"".join(Masker(RULES.find, step=step).stream([data]))
        assert [line for line in lines if line.encode() in given] == []


def secretive(store: DirectoryStore) -> SessionInfo:
    """A session with the same secrets in its outputs, records, logs, tree and notes."""
    session = store.open_session("s1")
    keep(store, session, "nothing to hide\n", tool="plain")
    dirty = keep(store, session, f"using {TOKEN}\nand ü then\n{PASSWORD}\n", tool="env", call_id="c1")
    keep(store, session, f"using {TOKEN}\nand ü then\n{PASSWORD}\n", tool="twin")
    keep(store, session, KEY, tool="cat", arguments={"path": "id_rsa", "password": PASSWORD, "n": [TOKEN, 1]})
    failed = Origin(tool="http", is_error=True, traceback=f"Authorization: Bearer {JWT}")
    store.put(session, [b"it failed"], failed)
    told = {"role": "tool", "call_id": "c1", "text": f"{TOKEN} é 😀 hash {dirty.measure.sha256}"}
    store.append_transcript(session, json.dumps(told).encode() + b"\n" + json.dumps({"role": "user"}).encode() + b"\n")
    store.append_events(session, b'{"at":1.0,"event":"called","preview":"key %s"}\n' % TOKEN.encode())
    tree = {"op": "session", "name": "s1", "children": [{"op": "tool", "name": f"x {TOKEN}"}]}
    store.save_tree(session, json.dumps(tree).encode())
    note = {"answer": f"the token is {TOKEN}", "source": dirty.measure.sha256}
    store.remember(session, dirty.measure.sha256, "cd" * 16, json.dumps(note).encode())
    writer = store.begin(session, Origin(tool="slow"))
    writer.write(f"still writing {TOKEN}".encode())
    return session


def redacted(store: DirectoryStore, session: SessionInfo) -> tuple[bytes, Exported]:
    written = io.BytesIO()
    done = export_session(store, session, written.write, redactor=Redactor(usual_rules()))
    return written.getvalue(), done


def test_what_is_packed_does_not_leave_without_a_word(folder_store: DirectoryStore) -> None:
    session = folder_store.open_session("s1")
    packed = keep(folder_store, session, gzip.compress(f"{TOKEN}\n".encode() * 100))
    with pytest.raises(UsageError, match=rf"cannot be masked: {packed.handle} \(gzip, in s1\).*with_packed=True"):
        redacted(folder_store, session)
    written = io.BytesIO()
    export_session(folder_store, session, written.write, redactor=Redactor(usual_rules()), with_packed=True)
    assert written.getvalue()


@pytest.mark.parametrize(
    "head", [b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07\x01\0", b"\x04\x22\x4d\x18", b"\x5d\0\0\x80\0", b"\x1f\x9d\x90", b"\x78\x9c"],
    ids=["7z", "RAR", "LZ4", "LZMA", "compress", "zlib"],
)  # fmt: skip
def test_what_is_packed_in_ways_that_are_not_opened_does_not_leave_either(
    folder_store: DirectoryStore, head: bytes
) -> None:
    session = folder_store.open_session("s1")
    data = head + b"\0\x01\xff" + zlib.compress(f"{TOKEN}\n".encode() * 100)
    packed, plain = keep(folder_store, session, data), keep(folder_store, session, b"\0\xfftoken " + TOKEN.encode())
    with pytest.raises(UsageError, match=rf"cannot be masked: {packed.handle} \(binary, in s1\)\."):
        export_session(folder_store, session, io.BytesIO().write, redactor=Redactor(usual_rules()))
    done = export_session(folder_store, session, io.BytesIO().write, redactor=Redactor(usual_rules()), with_packed=True)
    assert (done.packed, [one.handle for one in done.places]) == ((packed.handle,), [plain.handle])


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("form", ["csv", "json", "sql", "kubernetes"])
@pytest.mark.parametrize("before", [880_000, 1_040_000])
def test_a_column_is_followed_over_the_border_of_a_window(form: str, before: int) -> None:
    noise = "".join(f"2026-01-01 job {n} done\n" for n in range(60_000))[:before].rpartition("\n")[0] + "\n"
    rng = Random(3)
    secrets = [base64.b64encode(rng.randbytes(18)).decode() for _ in range(9000)]
    rows = enumerate(secrets)
    text = {
        "csv": lambda: "id,login,password\n" + "".join(f"{n},u{n},{one}\n" for n, one in rows),
        "json": lambda: '{"columns":["id","password"],"rows":[' + ",".join(f'[{n},"{one}"]' for n, one in rows) + "]}\n",
        "sql": lambda: "INSERT INTO users (id, password) VALUES " + ",".join(f"({n},'{one}')" for n, one in rows) + ";\n",
        "kubernetes": lambda: "---\napiVersion: v1\nkind: Secret\ndata:\n" + "".join(f"  f{n}: {one}\n" for n, one in rows),
    }[form]()  # fmt: skip
    data = (noise + text).encode()
    hidden = b"".join(Masker(RULES.find).stream(data[at : at + 65_536] for at in range(0, len(data), 65_536)))
    assert hidden.startswith(noise.encode())
    after = hidden[len(noise) :]  # to look through all of it nine thousand times takes longer than to mask it
    assert [n for n, one in enumerate(secrets) if one.encode() in after] == []


@pytest.mark.parametrize("pattern", [r"Xk9!mQ2\$pL7\+wZ4", "Xk9!mQ2[$]pL7[+]wZ4"])
def test_a_secret_that_was_searched_for_as_a_pattern_is_masked_in_the_log(pattern: str) -> None:
    redactor = Redactor(usual_rules())
    for _ in redactor.learn([b"DB_PASSWORD=Xk9!mQ2$pL7+wZ4\n"]):
        pass
    redactor.learned([])
    event = json.dumps({"at": 1.0, "event": "retrieved", "handle": "k3f9", "asked": {"pattern": pattern}}).encode()
    [hidden] = redactor.lines([event + b"\n"], "events.ndjson", 1)
    assert b"mQ2" not in hidden


@requirement("bundle:import-resolves")
@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, "gzip", "its tool is masked"])
def test_what_is_packed_may_leave_as_it_is_to_the_byte(
    folder_store: DirectoryStore, tmp_path: Path, how: int | str
) -> None:
    text = "user=app\nDB_PASSWORD=hunter2-hunter2\nhost=db\n"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how if isinstance(how, int) else zipfile.ZIP_STORED) as archive:
        archive.writestr("r.env", text)
    data = gzip.compress(text.encode(), 0) if how == "gzip" else file.getvalue()
    session = folder_store.open_session("s1")
    packed = keep(folder_store, session, data, tool="zip", masked=how == "its tool is masked")
    plain = keep(folder_store, session, text, tool="env")
    written = io.BytesIO()
    done = export_session(folder_store, session, written.write, redactor=Redactor(usual_rules()), with_packed=True)
    assert ([one.handle for one in done.places], done.packed) == ([plain.handle], (packed.handle,))
    imported(tmp_path / "other", written.getvalue())
    with closing(DirectoryStore(str(tmp_path / "other"))) as other:
        outputs = {one.handle: one for one in other.outputs(other.open_session("s1"))}
        assert outputs[packed.handle].measure == packed.measure
        assert read_back(other, outputs[packed.handle]) == data
        assert b"hunter2" not in read_back(other, outputs[plain.handle])


def test_what_is_packed_and_still_being_written_does_not_leave_without_a_word(folder_store: DirectoryStore) -> None:
    session = folder_store.open_session("s1")
    writer = folder_store.begin(session, Origin(tool="slow"))
    writer.write(gzip.compress(f"{TOKEN}\n".encode() * 100))
    with pytest.raises(UsageError, match=r"cannot be masked: \w+ \(gzip, in s1\)"):
        redacted(folder_store, session)


def test_no_secret_is_anywhere_in_the_bundle(folder_store: DirectoryStore) -> None:
    session = secretive(folder_store)
    plain = unpacked(redacted(folder_store, session)[0])
    whole = unpacked(exported(folder_store, session))
    for secret in (TOKEN, JWT, "MIIEowIBAAKCAQEAx1y2z3"):
        assert secret.encode() in whole
        assert secret.encode() not in plain
    assert json.dumps(PASSWORD).encode() not in plain


@requirement("bundle:redaction-everywhere")
def test_what_was_found_once_is_masked_wherever_it_stands(folder_store: DirectoryStore) -> None:
    """Lines of a key in a grep answer, a cookie's value in an address, a password before the place that names it."""
    session = folder_store.open_session("s1")
    lines = [f"{n:02}" + "aB3+" * 15 for n in range(52)]
    odd = 'p"ss/wörd 9'
    keep(folder_store, session, f"{lines[3]} and {odd} and {quote(odd, safe='')} stand here first\n", tool="log")
    keep(folder_store, session, json.dumps({"note": f"again {odd}"}), tool="api")
    keep(folder_store, session, "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END", tool="cat")
    keep(
        folder_store, session, f"{json.dumps({'password': odd})}\nCookie: sid=0a1b2c3d4e5f; Path=/somewhere\n", tool="x"
    )
    in_address = re.sub("%..", lambda found: found[0].lower(), quote(odd, safe=""))
    spelled = [in_address, json.dumps(odd, ensure_ascii=False)[1:-1].replace("/", "\\/")]
    spelled += [quote(odd), quote_plus(odd), html.escape(odd)]
    packed = [base64.b64encode(f"{'x' * n}{odd} and more".encode())[4:16] for n in range(3)]
    keep(
        folder_store,
        session,
        "\n".join([*spelled, *(base64.b64encode(f"{'x' * n}{odd} and more".encode()).decode() for n in range(3))]),
        tool="y",
    )
    answer = {"role": "tool", "text": "\n".join(f"{n}: {line}" for n, line in enumerate(lines))}
    folder_store.append_transcript(session, json.dumps(answer).encode() + b"\n")
    seen = {"at": 1.0, "event": "called", "call": {"0a1b2c3d4e5f": 1}, "path": "/somewhere"}
    folder_store.append_events(session, json.dumps(seen).encode() + b"\n")
    plain = unpacked(redacted(folder_store, session)[0])
    for secret in (*lines, odd, quote(odd, safe=""), json.dumps(odd)[1:-1], "0a1b2c3d4e5f"):
        assert secret.encode() not in plain
    assert not [one for one in (*(one.encode() for one in spelled), *packed) if one in plain]
    assert b"stand here first" in plain
    assert b"/somewhere" in plain


@requirement("bundle:redaction-everywhere")
def test_the_name_of_a_session_is_masked_too(folder_store: DirectoryStore, tmp_path: Path) -> None:
    session = folder_store.open_session(f"for {PASSWORD}")
    keep(folder_store, session, f"password={PASSWORD}\n", tool="x")
    bundle = redacted(folder_store, session)[0]
    assert PASSWORD.encode() not in unpacked(bundle)
    imported(tmp_path / "b", bundle)
    with closing(DirectoryStore(str(tmp_path / "b"))) as there:
        assert [one.name for one in there.sessions()] == ["for " + "*" * len(PASSWORD)]


@requirement("bundle:redaction-everywhere")
def test_a_secret_that_is_a_word_of_ours_breaks_no_log(folder_store: DirectoryStore, tmp_path: Path) -> None:
    session = folder_store.open_session("s1")
    kept = keep(folder_store, session, "one", tool="a")
    words = ("assistant", "extracted", "arguments", kept.handle, kept.measure.sha256, session.id)
    keep(folder_store, session, "".join(f"password={one}\n" for one in words), tool="hostile")
    said = {"role": "assistant", "text": "hi", "calls": [{"id": "1", "name": "x", "arguments": {"a": 1}}]}
    folder_store.append_transcript(session, json.dumps(said).encode() + b"\n")
    happened = {"at": 1.0, "event": "extracted", "handle": kept.handle}
    folder_store.append_events(session, json.dumps(happened).encode() + b"\n")
    imported(tmp_path / "b", redacted(folder_store, session)[0])
    with closing(DirectoryStore(str(tmp_path / "b"))) as there:
        here = there.find_session("s1")
        assert here is not None
        assert [one.problem for one in upkeep.verify(there) if one.problem] == []
        assert json.loads(there.transcript(here).lines.splitlines()[0])["calls"] == said["calls"]
        assert b"extracted" in there.events_from(here, 0).lines


@requirement("bundle:redaction-everywhere")
def test_more_secrets_than_can_be_masked_everywhere_are_refused(
    folder_store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redact, "_MOST_BYTES", 1000)
    session = folder_store.open_session("s1")
    keep(folder_store, session, "".join(f"password=number-{n:04}\n" for n in range(100)), tool="x")
    with pytest.raises(StoreFault, match="too much to mask"):
        redacted(folder_store, session)


def test_what_is_left_is_a_session_that_is_in_order(folder_store: DirectoryStore, tmp_path: Path) -> None:
    session = secretive(folder_store)
    bundle, _ = redacted(folder_store, session)
    imported(tmp_path / "b", bundle)
    with closing(DirectoryStore(str(tmp_path / "b"))) as there:
        here = there.find_session("s1")
        assert here is not None
        assert [one.problem for one in upkeep.verify(there) if one.problem] == []
        before = {one.handle: one for one in folder_store.outputs(session)}
        after = {one.handle: one for one in there.outputs(here)}
        assert set(after) == set(before)
        same = [one.measure.bytes for one in after.values() if one.state != "interrupted"]
        assert same == [one.measure.bytes for one in before.values() if one.state != "running"]
        dirty = there.resolve(here, "c1")
        with closing(there.open(dirty)) as reader:
            text = reader.read(0, 200).decode()
        assert text.split("\n")[0] == "using " + "*" * len(TOKEN)
        assert text.split("\n")[1:3] == ["and ü then", "*" * len(PASSWORD)]  # a secret by its name in another place
        assert dirty.measure.notes == ("2 secrets were masked when it was exported",)
        note = there.recall(here, dirty.measure.sha256, "cd" * 16)
        assert note is not None
        assert json.loads(note) == {"answer": "the token is " + "*" * len(TOKEN), "source": dirty.measure.sha256}
        told = json.loads(there.transcript(here).lines.splitlines()[0])
        assert told["text"] == "*" * len(TOKEN) + f" é 😀 hash {dirty.measure.sha256}"
        arguments = next(one.origin.arguments for one in after.values() if one.origin.tool == "cat")
        assert arguments == {"path": "id_rsa", "password": "*" * len(PASSWORD), "n": ["*" * len(TOKEN), 1]}


def test_the_hash_of_what_was_masked_is_nowhere(folder_store: DirectoryStore) -> None:
    """Whoever has it could try passwords until one fits."""
    session = secretive(folder_store)
    old = folder_store.resolve(session, "c1").measure.sha256
    assert old.encode() not in unpacked(redacted(folder_store, session)[0])


def test_the_bundle_says_that_and_where_it_was_masked_and_so_does_its_copy(
    folder_store: DirectoryStore, tmp_path: Path
) -> None:
    session = secretive(folder_store)
    bundle, done = redacted(folder_store, session)
    found = taken_apart(bundle)
    assert found.contents["redacted"] is True
    listed = [json.loads(line) for line in found.entries[found.at("masks.ndjson")][1].splitlines()]
    assert [mask.to_json() for mask in done.places] == listed
    assert sum(done.masks.values()) == len(listed)
    dirty = folder_store.resolve(session, "c1")
    assert ("GitHub Token", dirty.file, 6, 46) in {
        (one["kind"], one["file"], one["start"], one["end"]) for one in listed
    }
    assert {one["file"] for one in listed} >= {"transcript.ndjson", "events.ndjson", "tree.json"}
    files = dict(found.entries)
    for one in listed:
        if not one["file"].endswith(".record"):
            hidden = files[f"0/{one['file']}"] if f"0/{one['file']}" in files else b"*" * 10**6
            assert set(hidden[one["start"] : one["end"]]) <= set(b"*\n9"), one
    imported(tmp_path / "b", bundle)
    with closing(DirectoryStore(str(tmp_path / "b"))) as there:
        here = there.find_session("s1")
        assert here is not None
        again = taken_apart(exported(there, here))
        assert again.contents["redacted"] is True
        assert again.entries == found.entries


def test_masked_twice_it_gives_the_same_bytes(folder_store: DirectoryStore) -> None:
    session = secretive(folder_store)
    assert redacted(folder_store, session)[0] == redacted(folder_store, session)[0]


@pytest.mark.parametrize("module", ["detect_secrets", "re2"])
def test_without_its_packages_it_says_which_extra_brings_them(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(redact.importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'holdall\[redact\]'"):
        usual_rules()


def test_the_lines_of_a_key_that_stood_in_json_are_known() -> None:
    values = redact.Values()
    values.add(json.dumps(KEY).encode(), "Private Key")
    assert {b"MIIEowIBAAKCAQEAx1y2z3", b"q9w8e7r6t5"} <= values.found


def test_a_file_in_base64_is_opened_and_masked_as_such() -> None:
    inside = base64.b64encode(f"DB_PASSWORD={OPAQUE}\nuser=bob\n".encode())
    hidden = _masked(json.dumps({"encoding": "base64", "content": inside.decode()}))
    shown = base64.b64decode(json.loads(hidden)["content"])
    assert OPAQUE.encode() not in shown
    assert b"DB_PASSWORD=" in shown


def test_the_hash_of_a_password_is_masked() -> None:
    assert OPAQUE not in _masked(f"root:$6$saltsalt${OPAQUE}{OPAQUE}:19000:0:99999:7:::")


LONG = ("0aB" + "xY7" * 40) * 14  # 1,722 signs


@pytest.mark.parametrize(
    "form",
    ["SSH_PRIVATE_KEY={}\n", "password={}\n", "secret: {}\n", "https://h.example/?api_key={}&x=1", "[db]\npassword = {}\n",
     "environment:\n  - DB_PASSWORD={}\n", "- name: DB_PASSWORD\n  value: {}\n", "ENV DB_PASSWORD {}\n",
     "<password>{}</password>", '<input name="password" value="{}">', "IDENTIFIED BY '{}'", "Authorization: Bearer {}\n",
     'content-disposition: form-data; name="password"\r\n\r\n{}\r\n', '{{"name": "db_password", "value": "{}"}}',
     "user,password\nbob,{}\n", "https://bob:{}@h.example/"],
)  # fmt: skip
@requirement("bundle:redaction-recall")
def test_a_long_value_is_masked_to_its_end(form: str) -> None:
    for value in (LONG, LONG * 20):
        assert _masked(form.format(value)) == form.format("*" * len(value))


@pytest.mark.parametrize("sign", ["é", "中", "😀"])
@pytest.mark.parametrize("form", ["password: {}\n", "key: db_password\nvalue: {}\n", "the password is {}9 now"])
def test_no_mask_ends_inside_of_a_character(form: str, sign: str) -> None:
    for count in range(150, 260):
        assert sign not in _masked(form.format(sign * count))


@pytest.mark.parametrize(
    "text",
    ['{"form": [{"label": "Password:"}], "b": "c"}', '{"urls": ["https://h/login?user=a&password="], "n": 1}',
     '{"flags": ["--password="], "n": {"a": 1}}', "  --password TEXT   The password of the user\n",
     "def login(\n    password,\n    user_name,\n    home_address,\n):\n", "enum A {\n  PASSWORD,\n  USER_NAME,\n}\n",
     '[{"prompt":"Enter password:"},{"prompt":"Again:"}]', '["password:", "user:", 5]', '{"a": "secret=", "b": true}\n{}\n'],
)  # fmt: skip
def test_a_string_of_json_that_ends_in_such_a_name_stays_and_so_does_what_follows(text: str) -> None:
    assert _masked(text) == text


@pytest.mark.parametrize("value", ["}x7Hq9vTz", "]x7Hq9vTz", ",[x7Hq9vTz"])
def test_a_value_that_begins_like_the_end_of_a_list_is_masked(value: str) -> None:
    assert value not in _masked(f'password="{value}"\n')
    assert value not in _masked(f'{{"password": "{value}"}}\n')


def test_a_secret_is_masked_as_a_notice_writes_it_with_its_numbers_left_out_or_cut_off() -> None:
    redactor = redact.Redactor(redact.usual_rules())
    secret = "Tr0ub4dor-zebra-Xk9-quagga-zorilla-zebu"
    for _ in redactor.learn([f"user=app password={secret}\n".encode()]):
        pass
    redactor.learned([])
    told = '9,000 × user=app password=Tr<n>ub<n>dor-zebra-Xk<n>-quagga-zorilla-zebu\nstr "Tr0ub4dor-zeb…"\n'
    told += "of Tr0ub4dor-zebra alone and password in words nothing is known\n"
    masked = b"".join(redactor.stream([told.encode()], "f", "h")).decode()
    assert "zebra-Xk" not in masked
    assert f'str "{"*" * 13}…"' in masked
    assert "of Tr0ub4dor-zebra alone" in masked


@pytest.mark.parametrize(
    "line",
    [
        "password: 'Zq8W''r3Lk9Tp2Vx'\n",
        "export DB_PASSWORD='Zq8W'\"'\"'r3Lk9Tp2Vx'\n",
        "tool --password='Zq8W'\"'\"'r3Lk9Tp2Vx' -u a\n",
    ],
)
def test_a_quote_inside_of_a_password_does_not_end_it(line: str) -> None:
    redactor = redact.Redactor(redact.usual_rules())
    redactor.learned([])
    masked = b"".join(redactor.stream([line.encode()], "f", "h"))
    assert b"r3Lk9" not in masked
    assert masked.endswith((b"'\n", b"' -u a\n"))


def test_a_piece_of_a_secret_is_masked_in_what_was_answered() -> None:
    """A model reads a long line part by part, and each part begins and ends where it said."""
    secret, session = "qzebra-quagga-zorilla-zebu-zander-77xyQ9Lm", "0f3c2a9e-77aa-4bcd-9abc-zander-77xyQ9"
    redactor = redact.Redactor(redact.usual_rules())
    for _ in redactor.learn([f'{{"password": "{secret}"}}'.encode()]):
        pass
    redactor.learned([session])
    for at in range(len(secret) - 10 + 1):
        for end in range(at + 10, len(secret) + 1):
            told = json.dumps({"text": f'{secret[at:end]}", "more": 1', "session": session}).encode()
            [masked] = redactor.lines([told + b"\n"], "transcript.ndjson", 1)
            piece = secret[at:end]
            assert piece.encode() not in masked or piece in session
            assert json.loads(masked)["session"] == session
            assert len(masked) == len(told) + 1
    kept = b'{"text":"the zebu-zan is an animal"}'
    assert list(redactor.lines([kept + b"\n"], "transcript.ndjson", 1)) == [kept + b"\n"]


@pytest.mark.parametrize(
    "line", ["stripe rk_live_qmVe5Mvxrv99NcqVTSu7rtaU", "password=Tr0ub4dor-77-zebra-quagga9", "password=aaaaaaaaaaab1aaaaaaaab2a"]
)  # fmt: skip
def test_a_piece_of_a_secret_is_masked_though_a_part_of_it_stands_in_another_spelling(line: str) -> None:
    """In its shape without numbers, in base64, or at another place of it."""
    redactor, secret = redact.Redactor(RULES), re.split("[ =]", line)[1]
    for _ in redactor.learn([f"{line}\n".encode()]):
        pass
    redactor.learned([])
    for at, end in itertools.combinations(range(len(secret) + 1), 2):
        masked = redactor.json(json.dumps({"text": f"1 x {secret[at:end]}\n"}).encode(), "answers/x")
        may_stay = end - at < 10 or re.fullmatch("[a-z_]+", secret[at:end])  # it may be the name of a tool
        assert may_stay or json.loads(masked)["text"] == f"1 x {'*' * (end - at)}\n", secret[at:end]


def test_pieces_of_many_secrets_that_begin_alike_are_masked() -> None:
    redactor = redact.Redactor(RULES)
    secrets = [f"qzebra-{n:03}-{hashlib.sha256(b'%d' % n).hexdigest()[:9]}" for n in range(100)]
    for _ in redactor.learn(f"password={one}\n".encode() for one in secrets):
        pass
    redactor.learned([])
    told = json.dumps([one[at : at + 10] for one in secrets for at in range(len(one) - 9)]).encode()
    assert set(json.loads(redactor.json(told, "answers/x"))) == {"*" * 10}


@requirement("bundle:redaction-recall")
@pytest.mark.parametrize("before", [b"", b"{", b'{"a": '])
def test_what_a_server_said_of_its_call_is_masked_and_learned_from(before: bytes) -> None:
    """It is kept as lines of text, among notes that are JSON."""
    said = before + b"info: connecting with DB_PASSWORD=zQ7vK2mPw9LxT4bNs8Rd\npostgres://app:hunter2hunter2@db/x\n"
    redactor = redact.Redactor(redact.usual_rules())
    redactor.learn_json(said)
    redactor.learned([])
    masked = redactor.json(said, "answers/x")
    assert len(masked) == len(said)
    assert b"zQ7vK2" not in masked
    assert b"hunter2hunter2" not in masked
    assert b"".join(redactor.stream([b"see zQ7vK2mPw9LxT4bNs8Rd"], "f", "h")) == b"see " + b"*" * 20


@pytest.mark.parametrize(
    "secret",
    ["Zebra12-77-quagga-zorilla", "zorilla-quagga-deadbeef99-zebra", "zebra-2024-01-02-quagga", "zebra12/quagga/zorilla-7",
     "quagga.10.2.3.4.zebra-zorilla", "zebra-550e8400-e29b-41d4-a716-446655440000-quagga", "0xdeadbeefzebra-quagga1",
     "xoxb-263594206564-2343594206574-zebraQuagga8t08"],
)  # fmt: skip
@pytest.mark.parametrize(
    "line", ["09:00:01 login password={} try 5", 'a {{"password": "{}", "n": 7}}', "tool --password {} -n 4"]
)
def test_a_secret_is_masked_in_the_shape_of_its_line_whatever_is_left_out_there(secret: str, line: str) -> None:
    redactor = redact.Redactor(redact.usual_rules())
    for _ in redactor.learn([line.format(secret).encode()]):
        pass
    redactor.learned([])
    told = json.dumps({"text": f"4,000 × {shapes.masked(line.format(secret))}"}, ensure_ascii=False).encode()
    assert not re.search(b"(?i)zebra|quagga|zorilla", redactor.json(told, "answers/x"))


def test_our_own_words_are_no_pieces_of_a_secret() -> None:
    """An answer that ends inside of a string leaves a quote open, and what follows it there is ours."""
    answer = '"password": "qzebra-quagga\n</qm85:736020>\nNext: context_read(handle="log", bytes="4000:6000")'
    redactor = redact.Redactor(redact.usual_rules())
    redactor.learn_json(json.dumps({"content": answer}).encode())
    redactor.learn_json(b'{"content": "token=context_read-final_report-7QxZt9"}')
    redactor.learned(["log"])
    kept = b'{"name":"context_read","content":"</qm85:736020>\\nNext: context_read(handle=\\"log\\")"}'
    assert redactor.json(kept, "transcript.ndjson") == kept
    assert b"7QxZt9" not in redactor.json(b'{"a":"x context_read-final_report-7QxZt9"}', "transcript.ndjson")


@pytest.mark.parametrize("before", [0, 3, 17])
def test_a_secret_is_masked_in_the_bytes_of_an_answer(before: int) -> None:
    """As `read` answers about what is no text, in a transcript."""
    redactor = Redactor(RULES)
    redactor.learn_json(json.dumps({"password": PASSWORD + "xyz"}).encode())
    redactor.learned([])
    data = b"\0" * before + f"DB_PASSWORD={PASSWORD}xyz\n".encode() + b"\1\2\3" * 9
    for rows in (hex_rows(data, 9000), data.hex(" "), f"{0:08x}  {data[:16].hex(' ')}\n{16:08x}  {data[16:].hex(' ')}"):
        line = json.dumps({"text": f"<x:1>\n{rows}\n</x:1>"}).encode()
        told = json.loads(redactor.json(line, "transcript.ndjson"))["text"].splitlines()
        shown = "".join(re.sub(r"^[0-9a-f]{8}  ", "", row).replace(" ", "") for row in told[1:-1])
        assert sum(map(len, told)) == sum(map(len, json.loads(line)["text"].splitlines()))
        assert shown.startswith(data[: before + 11].hex())
        assert shown.endswith(data[-27:].hex())
        digits = PASSWORD.encode().hex()
        assert not any(digits[at : at + 16] in shown for at in range(len(digits) - 15))


def test_a_tool_that_is_named_by_a_secret_does_not_keep_it_in_the_bundle(tmp_path: Path) -> None:
    with closing(DirectoryStore(str(tmp_path / "home"))) as store:
        session = store.open_session("s")
        secret = "gFb51yBMWXaSCrUZoL8g"
        store.put(session, [f"DB_PASSWORD={secret}\nlogin with {secret} worked\n".encode()], Origin(tool="fetch"))
        store.put(session, [b"nothing"], Origin(tool=secret))
        store.put(session, [b'{"password": "fetch_logs"}\n'], Origin(tool="fetch_logs"))
        written = io.BytesIO()
        export_session(store, session, written.write, redactor=Redactor(usual_rules()))
    whole = unpacked(written.getvalue())
    assert secret.encode() not in whole
    assert whole.count(b"*" * len(secret)) >= 3
    assert b'"tool":"fetch_logs"' in whole


IN_STRINGS = (
    "curl -u admin:Zk8mQ2vLx9TdWq4 https://api.example.com", "Cookie: sessionid=Zk8mQ2vLx9TdWq4e1ba1258309f0",
    "mysql -uapp -pZk8mQ2vLx9TdWq4 db", "sshpass -p Zk8mQ2vLx9TdWq4 ssh host", "docker login -u bob -p Zk8mQ2vLx9TdWq4 reg",
    "db.internal:5432:prod:app:Zk8mQ2vLx9TdWq4", "\tmachine example.com login bob password Zk8mQ2vLx9TdWq4",
)  # fmt: skip
AS_STRINGS: dict[str, Callable[[str], str]] = {
    "repr": lambda text: f"CompletedProcess(args=['x'], returncode=0, stdout={text!r})",
    "bytes": lambda text: repr({"out": text.encode()}),
    "logfmt": lambda text: f"level=info msg={json.dumps(text)}",
    "JSON without its ends": lambda text: json.dumps({"stdout": text})[1:-4],
    "the end of JSON": lambda text: json.dumps({"stdout": text})[14:],
}


@pytest.mark.parametrize("line", IN_STRINGS)
@pytest.mark.parametrize("write", AS_STRINGS)
def test_a_secret_is_masked_in_the_string_of_a_program(line: str, write: str) -> None:
    written = AS_STRINGS[write](f"deploying\n{line}\r\ndone\n")
    assert "Zk8mQ2vLx9" in written
    assert "Zk8mQ2vLx9" not in _masked(written)


@pytest.mark.parametrize(
    "text",
    [
        "curl -s \\\n  -u admin:Zk8mQ2vLx9TdWq4 \\\n  https://api.example.com", "docker login \\\r\n  -u bob -p Zk8mQ2vLx9TdWq4 reg",
        "redis-cli -h db \\\n  -a Zk8mQ2vLx9TdWq4", "mysql -uroot -p'Zk8mQ2vLx9TdWq4' db", 'mysqldump -uroot -p"Zk8mQ2vLx9TdWq4" db',
        "ssh host 'mysql --password='\\''Zk8mQ2vLx9TdWq4'\\'' db'", "sh -c 'export DB_PASSWORD='\\''Zk8mQ2vLx9TdWq4'\\'''",
        "{'password' : u'Zk8mQ2vLx9TdWq4'}", "ConvertTo-SecureString -AsPlainText 'Zk8mQ2vLx9TdWq4' -Force",
    ],
)  # fmt: skip
def test_a_secret_is_masked_as_shells_write_it(text: str) -> None:
    assert "Zk8mQ2vLx9" not in _masked(text)


ODD = (  # no quote and no blank of it ends it
    "Zq8W'r3Lk9Tp2Vx", "Zq 8W' r3Lk9Tp2Vx", "'Zq8Wr3Lk9Tp2Vx", "q b'r3Lk9Tp2Vx", 'Zq8W"\'r3Lk9Tp2Vx', "Zq8W',r3Lk9Tp2Vx",
    "it''r3Lk9Tp2Vx", "Zq8W r3Lk9Tp2Vx",
)  # fmt: skip
GIVEN: dict[str, tuple[str, ...]] = {
    "a variable": ("export", "DB_PASSWORD={}"), "a variable before a command": ("PGPASSWORD={}", "psql", "db"),
    "a declaration": ("declare", "-x", "DB_PASSWORD={}"), "a flag": ("tool", "--password", "{}"),
    "a flag and its value": ("tool", "--password={}", "-u", "x"), "mysql": ("mysql", "-uapp", "-p{}", "db"),
    "curl": ("curl", "-u", "admin:{}", "h"), "sshpass": ("sshpass", "-p", "{}", "ssh", "h"),
}  # fmt: skip
QUOTED: dict[str, Callable[[str], str]] = {
    "by Python": shlex.quote,
    "by hand": lambda word: "'" + word.replace("'", "'\\''") + "'",
    "printf %q": lambda word: re.sub(r"([^\w@%+=:./-])", r"\\\1", word),
}


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("by", QUOTED)
@pytest.mark.parametrize("within", ["word", "value"])
@requirement("bundle:redaction-recall")
def test_a_word_of_a_command_is_masked_with_its_quotes_and_blanks(value: str, given: str, by: str, within: str) -> None:
    quoted = QUOTED[by]
    if within == "word":
        line = " ".join(quoted(word.format(value)) for word in GIVEN[given])
    else:
        line = " ".join(GIVEN[given]).format(quoted(value))
    hidden = _masked(f"deploying\n{line}\nnext line of it\n")
    assert "r3Lk9" not in hidden
    assert "Zq8W" not in hidden
    assert hidden.endswith("\nnext line of it\n")


@pytest.mark.parametrize(
    "line",
    ["--password\\ Zk8mQ2vLx9TdWq4\\ db", "ssh h mysql\\ -uapp\\ -pZk8mQ2vLx9TdWq4\\ db", "ssh h curl\\ -u\\ a:Zk8mQ2vLx9TdWq4\\ h",
     "bash -c export\\ DB_PASSWORD=Zk8mQ2vLx9TdWq4\\;\\ run", "sh -c 'mysql -uapp -p'\"'\"'Zk8mQ2vLx9TdWq4'\"'\"' db'"],
)  # fmt: skip
def test_a_secret_is_masked_in_a_command_that_is_one_word(line: str) -> None:
    hidden = _masked(f"{line}\nnext line of it\n")
    assert "Zk8mQ2" not in hidden
    assert hidden.endswith("\nnext line of it\n")


DOUBLED = (
    "ALTER USER bob WITH PASSWORD '{}';", "CREATE USER a IDENTIFIED BY '{}';", "SET PASSWORD FOR a = '{}';",
    "SET PASSWORD = PASSWORD('{}');", "UPDATE u SET password='{}' WHERE a=1;", "INSERT INTO u (n,password) VALUES ('a','{}');",
    "CREATE LOGIN a WITH PASSWORD = N'{}';", "PRAGMA key='{}';", "password: '{}'", "{{user: bob, password: '{}', n: 1}}",
    "- name: DB_PASSWORD\n  value: '{}'", "password:\n  '{}'", "passwords:\n  - '{}'", "kind: Secret\nstringData:\n  a: '{}'",
    "$password = '{}'", "ConvertTo-SecureString '{}' -AsPlainText", "Server=x;Password='{}';User=b",
    'var password = @"{}";', 'Dim password As String = "{}"', 'strPassword = "{}"', 'ALTER USER a IDENTIFIED BY "{}";',
    'Server=x;Password="{}";User=b', 'user,password\nbob,"{}"',
)  # fmt: skip


@pytest.mark.parametrize("form", DOUBLED)
@pytest.mark.parametrize(
    "value", ["it's-r3Lk9Tp2Vx", "it's' r3Lk9Tp2Vx", "'r3Lk9Tp2Vx", "Zq8W',r3Lk9Tp2Vx", "r3Lk9Tp2Vx'"]
)
@requirement("bundle:redaction-recall")
def test_a_quote_that_is_written_twice_does_not_end_a_value(form: str, value: str) -> None:
    quote = "'" if "'{}'" in form else '"'
    hidden = _masked(f"first\n{form.format(value.replace(chr(39), 2 * quote))}\nlast: line\n")
    assert "r3Lk9" not in hidden
    assert hidden.endswith("\nlast: line\n")


@pytest.mark.parametrize(
    "text",
    ["password: \x1b(B\x1b[m{}", "\x1b[1mpassword\x1b(B\x1b[m: {}", "\x1b[1mDB_PASSWORD\x1b(B\x1b[m=\x1b(B{}\x1b(B\x1b[m", "password\x1b)0: {}",
     "mysql \x1b(B\x1b[m-uapp -p\x1b(B{} db", "password: \x1b7{}\x1b8", "p\x08pa\x08as\x08ss\x08sw\x08wo\x08or\x08rd\x08d: {}",
     "_\x08p_\x08a_\x08s_\x08s_\x08w_\x08o_\x08r_\x08d: {}"],
)  # fmt: skip
def test_what_a_terminal_is_told_is_no_part_of_a_name_or_a_value(text: str) -> None:
    assert OPAQUE not in _masked(text.format(OPAQUE))
    bold = "".join(f"{sign}\x08{sign}" for sign in OPAQUE)
    assert _masked(f"password: {bold}\n") == f"password: {'*' * len(bold)}\n"


@pytest.mark.parametrize(
    "text",
    ["f('', '', password)", 'x = ["", "password", ""]', "don't use 'a' or 'b', it's all ''", '"""The password of a user."""\nx = ""',
     "-- the password\n# of bob\n+ and ann\n- too", "    12\tpassword = config['x']", "echo 'the password' \"is \" here", "cp 'a b' -p 'c d' e",
     "src/app.py:12:40:unused:variable2", "- it''s", "grep -p 'it'\"'\"'s' x", "10:22:error:conn:x123456",
     "Private-Lines: 14 are too many for internationalization_of_it"],
)  # fmt: skip
def test_quotes_numbers_and_signs_around_nothing_secret_stay(text: str) -> None:
    assert _masked(text).replace("config", "******") == text.replace("config", "******")


COMMANDS = (
    ("mysql", "-uapp", "-pZk8mQ2vLx9TdWq4", "db"), ("curl", "-sS", "-u", "admin:Zk8mQ2vLx9TdWq4", "https://h"),
    ("sshpass", "-p", "Zk8mQ2vLx9TdWq4", "ssh", "h"), ("docker", "login", "-u", "bob", "-p", "Zk8mQ2vLx9TdWq4"),
    ("tool", "--password", "Zk8mQ2vLx9TdWq4"), ("unzip", "-P", "Zk8mQ2vLx9TdWq4", "a.zip"),
)  # fmt: skip
AS_WORDS: dict[str, Callable[[tuple[str, ...]], str]] = {
    "an error": lambda words: str(subprocess.CalledProcessError(1, list(words))),
    "a tuple": lambda words: f"running {words!r}",
    "Node": lambda words: f"[ {', '.join(map(repr, words))} ]",
    "quoted": lambda words: "exec: " + " ".join(f'"{word}"' for word in words),
    "a trace of a shell": lambda words: f"+ {words[0]} " + " ".join(f"'{word}'" for word in words[1:]),
    "YAML": lambda words: "command:\n" + "".join(f"  - {word}\n" for word in words),
    "a process": lambda words: "".join(f"{word}\0" for word in words),
}


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("write", AS_WORDS)
def test_what_is_given_to_a_command_is_masked_however_its_words_are_written(words: tuple[str, ...], write: str) -> None:
    written = AS_WORDS[write](words)
    hidden = _masked(written)
    assert "Zk8mQ2vLx9" not in hidden
    assert words[0] in hidden


OF_KUBERNETES = {
    "what it holds as text": 'kind: Secret\nstringData:\n  db: "p@ss-w0rd!9x"\n  smtp: p@ss-w0rd!9x\nmetadata:\n  name: app\n',
    "before its kind": "stringData:\n  smtp: p@ss-w0rd!9x\nkind: Secret\n",
    "blocks": "kind: Secret\ndata:\n  a: >-\n    p@ss-w0rd!9x\n    p@ss-w0rd!9x\n  b: |\n    [db]\n    pw_is=p@ss-w0rd!9x\n",
    "on one line": 'kind: Secret\nstringData: {smtp: "p@ss-w0rd!9x", db: p@ss-w0rd!9x}\nmetadata:\n  name: app\n',
    "in a list": (
        "items:\n- apiVersion: v1\n  stringData:\n    smtp: p@ss-w0rd!9x\n  kind: Secret\n- kind: ConfigMap\n"
        "  metadata:\n    name: app\n  data:\n    a: Abcdefgh1234\n"
    ),
}


@pytest.mark.parametrize("form", OF_KUBERNETES)
def test_all_that_a_secret_of_kubernetes_holds_is_masked_and_nothing_beside_it(form: str) -> None:
    hidden = _masked(OF_KUBERNETES[form])
    assert "w0rd" not in hidden
    assert hidden.count("app") == OF_KUBERNETES[form].count("app")
    assert "a: Abcdefgh1234" in hidden or form != "in a list"
