"""The manifests in examples/kubernetes are what Kubernetes and the program take: published schemas, references, arguments, rights."""

import copy
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import needs

MODULES = ("kubernetes_validate", "yaml")
if not needs.missing(*MODULES):
    import kubernetes_validate
    import manifests
    import program

# The oldest that knows all that the manifests say, and the latest that the package has.
OLDEST = "1.29"


def named(documents: list[dict], kind: str, name: str) -> dict[str, Any]:
    return next(document for document in documents if (document["kind"], document["metadata"]["name"]) == (kind, name))


def container(documents: list[dict], kind: str, name: str) -> dict[str, Any]:
    """The only container of a workload."""
    return named(documents, kind, name)["spec"]["template"]["spec"]["containers"][0]


@needs.modules(*MODULES)
class SchemaTest(unittest.TestCase):
    def test_each_document_is_of_the_published_schemas(self) -> None:
        for file, documents in manifests.files().items():
            for document in documents:
                for version in (OLDEST, kubernetes_validate.latest_version()):
                    with self.subTest(file=file, document=manifests.name(document), version=version):
                        kubernetes_validate.validate(document, version, strict=True)

    def test_a_key_that_kubernetes_does_not_know_is_refused(self) -> None:
        job = manifests.files()["job.yaml"][1]
        kubernetes_validate.validate(job, OLDEST, strict=True)
        job["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(job, OLDEST, strict=True)

    def test_the_kustomization_has_all_files_but_the_job(self) -> None:
        resources = manifests.kustomization()["resources"]
        self.assertEqual(sorted(resources), sorted(manifests.files().keys() - manifests.ALONE))

    def test_the_kustomization_sets_the_image_that_the_manifests_name(self) -> None:
        [image] = manifests.kustomization()["images"]
        self.assertEqual(image["name"], container(manifests.files()["agent.yaml"], "DaemonSet", "quincunx-agent-blue")["image"])


# Ways to break the manifests, each with words of what is then said.
BREAKS: dict[str, tuple[Callable[[list[dict]], Any], str]] = {}


def breaks(said: str) -> Callable:
    """Has a function be a way to break them."""

    def note(way: Callable[[list[dict]], Any]) -> Callable:
        BREAKS[way.__name__] = (way, said)
        return way

    return note


def manager(documents: list[dict]) -> dict[str, Any]:
    return container(documents, "StatefulSet", "quincunx-manager")


def switch(documents: list[dict]) -> dict[str, Any]:
    return container(documents, "DaemonSet", "quincunx-switch")


def ports(documents: list[dict]) -> dict[str, Any]:
    return container(documents, "DaemonSet", "quincunx-ports")


def agent(documents: list[dict]) -> dict[str, Any]:
    return container(documents, "DaemonSet", "quincunx-agent-blue")


def change(container: dict[str, Any], old: str, new: str) -> None:
    """Changes the argument that begins so."""
    container["args"] = [new if word.startswith(old) else word for word in container["args"]]


@breaks("has no --sotre")
def an_option_with_a_slip_of_the_pen(documents):
    change(manager(documents), "--store", "--sotre=/var/lib/quincunx/groups.sqlite")


@breaks("expected")
def a_value_that_is_none(documents):
    change(switch(documents), "--memory", "--memory=64Mib")


@breaks("no --dashboard")
def an_option_of_another_command(documents):
    agent(documents)["args"].append("--dashboard=127.0.0.1:1")


@breaks("is in no volume")
def a_store_beside_its_volume(documents):
    change(manager(documents), "--store", "--store=/var/lib/groups.sqlite")


@breaks("nothing can be written")
def a_store_where_the_certificate_is(documents):
    change(manager(documents), "--store", "--store=/etc/quincunx/groups.sqlite")


@breaks("which is no Service")
def a_manager_by_another_name(documents):
    change(agent(documents), "--manager", "--manager=manager.quincunx.svc:4790")


@breaks("has no livenessProbe")
def a_container_without_a_probe(documents):
    del switch(documents)["livenessProbe"]


@breaks("shows no certificate")
def a_probe_by_grpc(documents):
    manager(documents)["readinessProbe"] = {"grpc": {"port": 4790}}


@breaks("does not answer so")
def http_where_grpc_is(documents):
    manager(documents)["livenessProbe"]["httpGet"]["port"] = "control"


@breaks("there is /metrics alone")
def a_page_that_is_not_there(documents):
    switch(documents)["livenessProbe"]["httpGet"]["path"] = "/healthz"


@breaks("listens on loopback")
def a_probe_at_an_address_where_the_agent_is_not(documents):
    del agent(documents)["livenessProbe"]["tcpSocket"]["host"]


@breaks("where nobody listens")
def a_port_that_is_not_served(documents):
    change(switch(documents), "--metrics", "--metrics=$(ADDRESS):9792")


@breaks("means $(MACHIEN)")
def a_variable_that_is_not_set(documents):
    change(switch(documents), "--name", "--name=$(MACHIEN)")


@breaks("the other way round")
def ports_without_the_device(documents):
    ports(documents)["volumeMounts"].pop()


@breaks("needs ['NET_ADMIN', 'NET_RAW']")
def ports_without_packet_sockets(documents):
    ports(documents)["securityContext"]["capabilities"]["add"] = ["NET_ADMIN"]


@breaks("needs ['NET_ADMIN']")
def a_switch_with_more_than_it_needs(documents):
    switch(documents)["securityContext"]["capabilities"]["add"].append("SYS_ADMIN")


@breaks("rights that it was not given")
def a_manager_that_keeps_capabilities(documents):
    del manager(documents)["securityContext"]["capabilities"]


@breaks("superuser alone")
def a_switch_as_somebody_else(documents):
    switch(documents)["securityContext"]["runAsUser"] = 1000


@breaks("no limit of memory")
def a_container_without_a_limit(documents):
    del agent(documents)["resources"]["limits"]["memory"]


@breaks("which is no volume")
def a_volume_that_is_not_there(documents):
    manager(documents)["volumeMounts"][0]["name"] = "identities"


@breaks("which no pod has")
def a_service_of_nobody(documents):
    named(documents, "Service", "quincunx-manager")["spec"]["selector"]["app"] = "manager"


@breaks("leads to port grpc")
def a_service_to_a_port_of_another_name(documents):
    named(documents, "Service", "quincunx-manager")["spec"]["ports"][0]["targetPort"] = "grpc"


@breaks("and its pods have")
def a_set_that_does_not_select_its_pods(documents):
    named(documents, "DaemonSet", "quincunx-switch")["spec"]["selector"]["matchLabels"]["app"] = "switch"


@breaks("not in the machine's network")
def a_switch_in_a_network_of_its_own(documents):
    del named(documents, "DaemonSet", "quincunx-switch")["spec"]["template"]["spec"]["hostNetwork"]


@breaks("which README.md does not make so")
def a_certificate_that_no_secret_has(documents):
    change(agent(documents), "--identity", "--identity=/etc/quincunx/tenant-red.pem")


@breaks("no agent where its ranks ask for one")
def ranks_on_machines_without_an_agent(documents):
    named(documents, "Job", "train")["spec"]["template"]["spec"]["nodeSelector"] = {"quincunx/switch": ""}


@breaks("not of the tenant")
def ranks_of_another_tenant(documents):
    container(documents, "Job", "train")["env"][-1]["value"] = "red/train."


@breaks("another number of machines")
def a_job_that_waits_for_a_third_machine(documents):
    named(documents, "Job", "train")["spec"]["parallelism"] = 3


@breaks("look for each other where none is")
def ranks_at_another_port(documents):
    named(documents, "Service", "train")["spec"]["ports"][0]["port"] = 29501


@breaks("Kubernetes takes")
def a_policy_of_names_that_is_none(documents):
    named(documents, "DaemonSet", "quincunx-agent-blue")["spec"]["template"]["spec"]["dnsPolicy"] = "ClusterFirstWithHostNetwork"


@breaks("which is no quantity")
def an_amount_with_a_slip_of_the_pen(documents):
    manager(documents)["resources"]["limits"]["memory"] = "1GiB"


@breaks("has Prometheus ask")
def metrics_looked_for_elsewhere(documents):
    named(documents, "DaemonSet", "quincunx-switch")["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] = "9790"


@breaks("has no --store")
def a_manager_without_a_store(documents):
    manager(documents)["args"] = [word for word in manager(documents)["args"] if not word.startswith("--store")]


@breaks("starts ranks again")
def a_rank_that_is_started_again_alone(documents):
    named(documents, "Job", "train")["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"


@breaks("no field of a pod's")
def a_field_with_a_slip_of_the_pen(documents):
    switch(documents)["env"][0]["valueFrom"]["fieldRef"]["fieldPath"] = "spec.nodename"


@breaks("has no container")
def a_switch_of_nothing(documents):
    named(documents, "DaemonSet", "quincunx-switch")["spec"]["template"]["spec"]["containers"] = []


@breaks("runs on every machine")
def a_switch_on_every_machine(documents):
    del named(documents, "DaemonSet", "quincunx-switch")["spec"]["template"]["spec"]["nodeSelector"]


@needs.modules(*MODULES)
class ManifestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.documents = [document for documents in manifests.files().values() for document in documents]

    def test_what_they_name_is_there_and_the_program_takes_their_arguments(self) -> None:
        self.assertEqual(manifests.faults(self.documents), [])

    def test_whatever_is_broken_is_noticed(self) -> None:
        for name, (way, said) in BREAKS.items():
            with self.subTest(broken=name):
                documents = copy.deepcopy(self.documents)
                way(documents)
                found = manifests.faults(documents)
                self.assertTrue(any(said in fault for fault in found), f"expected \"{said}\", found {found}")


if __name__ == "__main__":
    unittest.main()
