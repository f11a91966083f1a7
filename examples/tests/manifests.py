"""What must hold of the manifests for Kubernetes beyond their schemas: what names something names what is there, and the program takes its arguments."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import program
import yaml

FOLDER = program.EXAMPLES / "kubernetes"
# Says what must be there before: Secrets and labels.
README = (FOLDER / "README.md").read_text(encoding="utf-8")
# Not applied with the others: it ends.
ALONE = {"job.yaml"}
# What a capability is for: option by option of `quincunx switch`. All other containers have none.
CAPABILITIES = {"switch": {"NET_ADMIN"}, "switch --port": {"NET_ADMIN", "NET_RAW"}}
# Options that each command must have here.
NEEDED = {
    "manager": {"--listen", "--identity", "--store", "--audit", "--metrics"},
    "switch": {"--name", "--address", "--manager", "--identity", "--memory", "--metrics"},
    "agent": {"--listen", "--manager", "--identity"},
}
WORKLOADS = {"StatefulSet", "DaemonSet", "Job"}
IMAGES = {"quincunx", "train"}
# What schemas take for any text: the values that Kubernetes takes.
VALUES = {
    "restartPolicy": {"Always", "Never", "OnFailure"}, "dnsPolicy": {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"},
    "completionMode": {"Indexed", "NonIndexed"}, "accessModes": {"ReadWriteOnce", "ReadWriteOncePod"}, "policyTypes": {"Ingress", "Egress"},
    "protocol": {"TCP", "UDP"}, "topologyKey": {"kubernetes.io/hostname"}, "clusterIP": {"None"},
    "type": {"OnDelete", "RollingUpdate", "RuntimeDefault", "CharDevice"},
}
QUANTITY = re.compile(r"[0-9]+(?:m|[KMGT]i)?")
# Values for what a machine's fields are.
FIELDS = {"spec.nodeName": "machine-1", "status.hostIP": "10.0.0.1", "metadata.annotations['batch.kubernetes.io/job-completion-index']": "0"}
REFERENCE = re.compile(r"\$\((\w+)\)")

Document = dict[str, Any]


def files() -> dict[str, list[Document]]:
    """The documents of each file of manifests."""
    return {path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.yaml")) if path.name != "kustomization.yaml"}


def kustomization() -> Document:
    return yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))


def name(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def faults(documents: list[Document]) -> list[str]:
    """What is wrong with documents that belong together, a line each."""
    found = []
    for document in documents:
        if not document["metadata"].get("name"):
            return [f"a {document['kind']} has no name"]
        found += [f"{name(document)}: {fault}" for fault in values(document)]
        template = document.get("spec", {}).get("template")
        if document["kind"] in WORKLOADS and not (template and template["spec"]["containers"]):
            found.append(f"{name(document)}: has no container")
        elif template:
            found += [f"{name(document)}: {fault}" for fault in workload(document, template, documents)]
        if document["kind"] in ("Service", "NetworkPolicy"):
            found += [f"{name(document)}: {fault}" for fault in targets(document, documents)]
    return found


def values(node: Any, key: str = "") -> Iterator[str]:
    """Whether texts are such as Kubernetes takes, where its schemas take any."""
    if isinstance(node, dict):
        for inner, value in node.items():
            if key in ("requests", "limits") and not QUANTITY.fullmatch(str(value)):
                yield f"has {inner} {value}, which is no quantity"
            yield from values(value, inner)
    elif isinstance(node, list):
        for value in node:
            yield from values(value, key)
    elif key in VALUES and node not in VALUES[key]:
        yield f"has {key} {node}, and Kubernetes takes {sorted(VALUES[key])}"


def workload(document: Document, template: Document, documents: list[Document]) -> Iterator[str]:
    labels, spec = template["metadata"]["labels"], template["spec"]
    selector = document["spec"].get("selector", {}).get("matchLabels", {})
    # A job makes its own.
    if document["kind"] != "Job" and not (selector and selector.items() <= labels.items()):
        yield f"selects {selector}, and its pods have {labels}"
    for label in spec.get("nodeSelector", {}):
        if label not in README:
            yield f"wants machines with label {label}, of which README.md does not speak"
    if document["kind"] == "DaemonSet" and not spec.get("nodeSelector"):
        yield "runs on every machine"
    if document["kind"] == "Job":
        yield from ranks(document, documents)
    services = {other["metadata"]["name"] for other in documents if other["kind"] == "Service"}
    for key in (document["spec"].get("serviceName"), spec.get("subdomain")):
        if key and key not in services:
            yield f"names Service {key}, which is not there"
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    claims = {claim["metadata"]["name"]: claim for claim in document["spec"].get("volumeClaimTemplates", [])}
    for claim in claims.values():
        if not (claim["spec"].get("accessModes") and claim["spec"].get("resources", {}).get("requests", {}).get("storage")):
            yield "claims a volume of no size or no mode"
    for container in spec["containers"]:
        yield from mounts(container, volumes, claims)
        yield from confinement(container, spec)
        yield from probes(container)
        yield from references(container)
        if container["image"] not in IMAGES:
            yield f"has image {container['image']}, and known are {sorted(IMAGES)}"
        if (port := template["metadata"].get("annotations", {}).get("prometheus.io/port")) and not any(
            word.startswith("--metrics=") and word.endswith(f":{port}") for word in container["args"]
        ):
            yield f"has Prometheus ask at {port}, where the program does not show metrics"
        if document["kind"] == "StatefulSet" and "readinessProbe" not in container:
            yield "has no readinessProbe"
        if container["image"] == "quincunx":
            yield from arguments(container, spec, documents)


def mounts(container: Document, volumes: Document, claims: Document) -> Iterator[str]:
    names = [mount["name"] for mount in container.get("volumeMounts", [])]
    for missing in sorted(set(names) - volumes.keys() - claims.keys()):
        yield f"mounts {missing}, which is no volume"
    for idle in sorted((volumes.keys() | claims.keys()) - set(names)):
        yield f"has volume {idle}, which nobody mounts"


def confinement(container: Document, spec: Document) -> Iterator[str]:
    """Whether it has no more rights than it needs, and limits."""
    security = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
    capabilities = security.get("capabilities", {})
    if capabilities.get("drop") != ["ALL"] or security.get("allowPrivilegeEscalation") is not False or security.get("privileged"):
        yield "keeps rights that it was not given"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "has no profile of system calls"
    added, words = set(capabilities.get("add", [])), container.get("args", [])
    kind = "switch --port" if any(word.startswith("--port=") for word in words) else words[0] if words else ""
    needed = CAPABILITIES.get(kind, set())
    if added != needed:
        yield f"has capabilities {sorted(added)}, and needs {sorted(needed)}"
    # Kubernetes gives none of them to other users.
    if needed and security.get("runAsUser") != 0:
        yield "needs capabilities, which the superuser alone is given"
    if not needed and not security.get("runAsNonRoot"):
        yield "may be the superuser, and needs nothing of it"
    for resource in ("cpu", "memory"):
        if resource not in container.get("resources", {}).get("limits", {}):
            yield f"has no limit of {resource}"


def probes(container: Document) -> Iterator[str]:
    """Whether probes ask where the program answers, in a way that it does."""
    names = {port.get("name"): port["containerPort"] for port in container.get("ports", [])}
    told = dict(word.split("=", 1) for word in container.get("args", []) if "=" in word)
    answers = {int(told[option].rpartition(":")[2]): option for option in ("--listen", "--metrics") if option in told}
    for port, number in names.items():
        if number not in answers and number != 4791:
            yield f"has port {port} at {number}, where nobody listens"
    kinds = [kind for kind in ("readinessProbe", "livenessProbe", "startupProbe") if kind in container]
    if container["image"] == "quincunx" and "livenessProbe" not in kinds:
        yield "has no livenessProbe"
    for kind in kinds:
        probe = container[kind]
        if "grpc" in probe:
            yield f"{kind}: Kubernetes shows no certificate, so the manager does not hear it"
            continue
        way = "httpGet" if "httpGet" in probe else "tcpSocket"
        asked = probe[way]["port"]
        number = names.get(asked) if isinstance(asked, str) else asked
        if answers.get(number) != ("--metrics" if way == "httpGet" else "--listen"):
            yield f"{kind}: {way} at {asked}, where the program does not answer so"
        elif way == "httpGet" and probe[way].get("path") != "/metrics":
            yield f"{kind}: asks for {probe[way].get('path')}, and there is /metrics alone"
        if told.get("--listen", "").startswith("127.") and probe[way].get("host") != "127.0.0.1" and way == "tcpSocket":
            yield f"{kind}: asks at the machine's address, and the program listens on loopback"


def ranks(document: Document, documents: list[Document]) -> Iterator[str]:
    """Whether the ranks of a job find each other and their agent."""
    spec = document["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    environment = {variable["name"]: variable for variable in container["env"]}
    told = dict(word.split("=", 1) for word in container.get("command", []) if "=" in word)
    indexed = [name for name, variable in environment.items() if "job-completion-index']" in str(variable.get("valueFrom"))]
    if spec.get("completionMode") != "Indexed" or told.get("--node-rank") not in [f"$({name})" for name in indexed]:
        yield "does not number its machines"
    if spec.get("backoffLimit") != 0 or pod.get("restartPolicy") != "Never":
        yield "starts ranks again by themselves"
    if document["metadata"].get("namespace") != kustomization()["namespace"]:
        yield "is in another namespace than its agent"
    apart = [term["labelSelector"]["matchLabels"] for term in pod.get("affinity", {}).get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])]
    if spec["template"]["metadata"]["labels"] not in apart:
        yield "may have two machines' ranks on one"
    if not str(spec.get("completions")) == str(spec.get("parallelism")) == told.get("--nnodes"):
        yield "has another number of machines than torchrun waits for"
    ports = {str(port["port"]) for other in documents if other["kind"] == "Service" and other["metadata"]["name"] == pod.get("subdomain") for port in other["spec"]["ports"]}
    if told.get("--master-addr") != f"{document['metadata']['name']}-0.{pod.get('subdomain')}" or told.get("--master-port") not in ports:
        yield "has ranks look for each other where none is"
    agents = [other["spec"]["template"]["spec"] for other in documents if other["kind"] == "DaemonSet" and "agent" in other["metadata"]["name"]]
    near = [agent for agent in agents if agent["nodeSelector"] == pod.get("nodeSelector")]
    listens = {word for agent in near for word in agent["containers"][0]["args"]}
    if not pod.get("hostNetwork") or f"--listen={environment.get('QUINCUNX_MANAGER', {}).get('value')}" not in listens:
        yield "has no agent where its ranks ask for one"
    tenant = environment.get("QUINCUNX_JOB", {}).get("value", "").partition("/")[0]
    if not any(word.startswith("--identity=") and word.endswith(f"/tenant-{tenant}.pem") for word in listens):
        yield "is not of the tenant whose certificate the agent shows"


def references(container: Document) -> Iterator[str]:
    known = {variable["name"] for variable in container.get("env", [])}
    texts = container.get("args", []) + container.get("command", [])
    texts += [mount["subPathExpr"] for mount in container.get("volumeMounts", []) if "subPathExpr" in mount]
    used = {variable for text in texts for variable in REFERENCE.findall(text)}
    for variable in container.get("env", []):
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        if field not in FIELDS and "value" not in variable:
            yield f"has {variable['name']} be {field}, which is no field of a pod's"
    for variable in sorted(used - known):
        yield f"means $({variable}), which its environment does not have"


def arguments(container: Document, spec: Document, documents: list[Document]) -> Iterator[str]:
    """Whether the program takes them, and what they name is there."""
    values = {}
    for variable in container.get("env", []):
        field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        values[variable["name"]] = FIELDS.get(field, variable.get("value", ""))
    words = [REFERENCE.sub(lambda found: values.get(found[1], ""), word) for word in container["args"]]
    if refused := program.refusal(*words):
        yield refused
    told = dict(word.split("=", 1) for word in words if "=" in word)
    for missing in sorted(NEEDED[words[0]] - told.keys()):
        yield f"has no {missing}"
    places = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}
    for option in ("--identity", "--store", "--audit"):
        if (path := told.get(option)) and not any(Path(path).is_relative_to(place) for place in places):
            yield f"{option} {path} is in no volume"
    yield from secrets(container, spec, told.get("--identity", ""))
    for option in ("--store", "--audit"):
        if (path := told.get(option)) and any(Path(path).is_relative_to(place) and mount.get("readOnly") for place, mount in places.items()):
            yield f"{option} {path} is where nothing can be written"
    if any(word.startswith("--port=") for word in words) != ("/dev/net/tun" in places):
        yield "has /dev/net/tun, and no --port, or the other way round"
    if words[0] in ("switch", "agent") and not spec.get("hostNetwork"):
        yield "is not in the machine's network"
    if spec.get("hostNetwork") and spec.get("dnsPolicy") != "ClusterFirstWithHostNet":
        yield "does not find Services by their names"
    if manager := told.get("--manager"):
        host, _, port = manager.partition(":")
        served = {(f"{other['metadata']['name']}.quincunx.svc", str(it["port"])) for other in documents if other["kind"] == "Service" for it in other["spec"]["ports"]}
        if (host, port) not in served:
            yield f"asks the manager at {manager}, which is no Service"


def secrets(container: Document, spec: Document, identity: str) -> Iterator[str]:
    """Whether the certificate is a file that README.md puts into the Secret which is there."""
    names = {volume["name"]: volume["secret"].get("secretName") for volume in spec.get("volumes", []) if "secret" in volume}
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in names or not Path(identity).is_relative_to(mount["mountPath"]):
            continue
        file = REFERENCE.sub("machine-1", mount["subPathExpr"]) if "subPathExpr" in mount else Path(identity).name
        if not re.search(rf"create secret generic {names[mount['name']]} .*--from-file=certs/{re.escape(file)}(?: |$)", README, re.M):
            yield f"shows {file} of Secret {names[mount['name']]}, which README.md does not make so"
        return
    yield "shows no Secret's certificate"


def targets(document: Document, documents: list[Document]) -> Iterator[str]:
    """Whether a Service or a policy is about pods that are there, and ports of theirs."""
    spec = document["spec"]
    selector = spec["selector"] if document["kind"] == "Service" else spec["podSelector"].get("matchLabels", {})
    if job := selector.get("batch.kubernetes.io/job-name"):
        # Kubernetes gives a job's pods this label.
        if job not in {other["metadata"]["name"] for other in documents if other["kind"] == "Job"}:
            yield f"selects job {job}, which is not there"
        return
    templates = [other["spec"]["template"] for other in documents if other.get("spec", {}).get("template")]
    chosen = [template for template in templates if selector.items() <= template["metadata"]["labels"].items()]
    if not selector or not chosen:
        yield f"selects {selector}, which no pod has"
    known = {port.get("name") for template in chosen for container in template["spec"]["containers"] for port in container.get("ports", [])}
    rules = spec["ports"] if document["kind"] == "Service" else [port for rule in spec["ingress"] for port in rule["ports"]]
    for rule in rules:
        port = rule.get("targetPort", rule["port"])
        if port not in known:
            yield f"leads to port {port}, which no pod of it has"
