"""What the command is made of, as a bill of materials in CycloneDX: each crate that is linked or runs while it is compiled, with licence and hash.

From `cargo metadata` and `Cargo.lock`, which have all of it.
"""

import json
import time
import tomllib
from pathlib import Path

from build import ROOT, Machine, run


def bill(metadata: dict, lock: dict, root: str, when: int) -> str:
    """The bill of the package called `root`, of what cargo says of the tree and the lock's hashes."""
    hashes = {(each["name"], each["version"]): each.get("checksum") for each in lock["package"]}
    packages = {each["id"]: each for each in metadata["packages"]}
    needs = {
        node["id"]: sorted(each["pkg"] for each in node["deps"] if any(kind["kind"] != "dev" for kind in each["dep_kinds"]))
        for node in metadata["resolve"]["nodes"]
    }
    [first] = [each["id"] for each in metadata["packages"] if each["name"] == root]
    found, waiting = set(), [first]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += needs[one]

    def name(of: str) -> str:
        return f"pkg:cargo/{packages[of]['name']}@{packages[of]['version']}"

    def component(of: str, kind: str = "library") -> dict:
        package = packages[of]
        about = {"type": kind, "bom-ref": name(of), "name": package["name"], "version": package["version"], "purl": name(of)}
        if package.get("license"):
            about["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if checksum := hashes.get((package["name"], package["version"])):
            about["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        return about

    others = sorted(found - {first}, key=name)
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)), "component": component(first, "application")},
        "components": [component(each) for each in others],
        "dependencies": [{"ref": name(each), "dependsOn": [name(need) for need in needs[each]]} for each in [first, *others]],
    }
    return json.dumps(whole, indent=1) + "\n"


def of_command(machine: Machine, when: int) -> str:
    """The bill of the command on a machine."""
    asked = ("--locked", "--filter-platform", machine.static, "--features", "quincunx-cli/etcd")
    metadata = json.loads(run("cargo", "metadata", "--format-version", "1", *asked))
    return bill(metadata, tomllib.loads(Path(ROOT, "Cargo.lock").read_text()), "quincunx-cli", when)
