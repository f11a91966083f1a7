"""The container image: the static command alone, run by a user that is not root, as an archive in OCI's layout.

It is a layer and four texts. buildah, which writes the same, needs a kernel that lets it mount, and is on few machines that build.
"""

import gzip
import hashlib
import io
import json
import tarfile
import time
from pathlib import Path

from build import Machine

MEDIA = "application/vnd.oci.image"
# As the manifests in examples/kubernetes have it.
USER = 65532


def archive(files: list[tuple[str, bytes, int]], when: int) -> bytes:
    """A tar of files, all root's and of one time, in the order that is given; folders come before what is in them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        known: set[str] = set()
        for path, data, mode in files:
            for folder in reversed([str(folder) for folder in Path(path).parents if str(folder) != "."]):
                if folder not in known:
                    known.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, 0o755, when
                    tar.addfile(entry)
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode, entry.mtime = len(data), mode, when
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def image(machine: Machine, command: bytes, version: str, when: int) -> bytes:
    """The archive, for `podman load` or `skopeo copy oci-archive:`."""
    blobs: dict[str, bytes] = {}

    def blob(kind: str, data: bytes) -> dict[str, object]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"{MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def text(value: object) -> bytes:
        return json.dumps(value, sort_keys=True).encode()

    layer = archive([("usr/bin/quincunx", command, 0o755)], when)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
    configuration = {
        "created": created,
        "architecture": machine.oci,
        "os": "linux",
        "config": {"User": str(USER), "Entrypoint": ["/usr/bin/quincunx"], "Env": ["PATH=/usr/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "tools/release"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": blob("config.v1+json", text(configuration)),
        "layers": [blob("layer.v1.tar+gzip", gzip.compress(layer, 6, mtime=0))],
    }
    named = {**blob("manifest.v1+json", text(manifest)), "annotations": {"org.opencontainers.image.ref.name": f"quincunx:{version}"}}
    index = {"schemaVersion": 2, "manifests": [named]}
    files = [("oci-layout", text({"imageLayoutVersion": "1.0.0"})), ("index.json", text(index)), *sorted(blobs.items())]
    return archive([(path, data, 0o644) for path, data in files], when)
