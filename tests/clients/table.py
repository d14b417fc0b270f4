"""The table of docs/gateway.md: `python -m tests.clients.table` plays a trial with each agent that is installed, and
writes what each of them shows its model of results that do not come through the gateway.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients.agents import AGENTS, ROOT, Agent
from tests.clients.run import apart
from tests.clients.server import LARGE, SMALL, badge_of
from tests.clients.trial import DIRECT, Record

PAGE = ROOT / "docs" / "gateway.md"
_HEAD = """| client | text or structured content | also | characters of 10 MB of text, without the gateway |
|---|---|---|---|
"""
_FOOT = "\n\nMeasured by `./dev test clients`.\n"
_BLOCK = re.compile(r"(?<=<!-- clients: begin -->\n).*(?=<!-- clients: end -->)", re.DOTALL)
_LINE = re.compile(r"^20\S+ INFO .* took=12ms$", re.MULTILINE)


def row_of(agent: Agent, record: Record) -> str:
    both, image = record.step(DIRECT, "both", size=SMALL), record.step(DIRECT, "image", size=SMALL)
    embedded = record.step(DIRECT, "embedded", size=SMALL)
    parts = ["text"] * (badge_of("both") in both.text) + ["structured content"] * (
        badge_of("both, in rows") in both.text
    )
    others = ["images"] * bool(image.images) + ["embedded text"] * (badge_of("embedded") in embedded.text)
    others += ["links"] * ("visits://yesterday.log" in embedded.text)
    largest = max(one.arguments["size"] for one in record.steps if (one.server, one.tool) == (DIRECT, "text"))
    lines = _LINE.findall(record.step(DIRECT, "text", size=largest).text)
    most = round(sum(len(line) + 1 for line in lines), -3)
    return f"| {agent.title} {agent.version} | {' and '.join(parts)} | {', '.join(others)} | {most:,} |"


def main() -> None:
    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in (name for name, agent in AGENTS.items() if agent.folder is not None):
            place = Path(folder) / name
            command = [*apart(), sys.executable, "-m", "tests.clients.run", name, str(place), str(LARGE)]
            subprocess.run(command, cwd=ROOT, check=True)
            rows.append(row_of(AGENTS[name], Record.read(place / "record.json")))
            print(rows[-1], flush=True)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_BLOCK.sub(_HEAD + "\n".join(rows) + _FOOT, text), encoding="utf-8")


if __name__ == "__main__":
    main()
