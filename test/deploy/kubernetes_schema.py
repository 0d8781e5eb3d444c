"""Schemas of the Kubernetes objects in deploy/kubernetes, written from the API reference (v1.30).

They know the fields that these manifests use, and refuse every other. A field that is missing here
is therefore either a slip in the manifest or one to be looked up and added."""

NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
PORT_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 15}
PORT_NUMBER = {"type": "integer", "minimum": 1, "maximum": 65535}
PORT = {"anyOf": [PORT_NAME, PORT_NUMBER]}
PATH = {"type": "string", "pattern": "^/"}
COUNT = {"type": "integer", "minimum": 0}
SECONDS = {"type": "integer", "minimum": 1}
ID = {"type": "integer", "minimum": 0}
BOOLEAN = {"type": "boolean"}
TEXT = {"type": "string", "minLength": 1}
KEY_PART = "[A-Za-z0-9][-A-Za-z0-9_.]*"
LABEL_KEY = {"type": "string", "pattern": f"^{KEY_PART}(/{KEY_PART})?$"}
LABEL_VALUE = {"type": "string", "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
               "maxLength": 63}
LABELS = {"type": "object", "propertyNames": LABEL_KEY, "minProperties": 1,
          "additionalProperties": LABEL_VALUE}
CPU = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,3})?$|^[0-9]+m$"}
BYTES = {"type": "string", "pattern": "^[0-9]+(Ki|Mi|Gi)?$"}


def one_of(*words):
    return {"enum": [*words]}


def array(items):
    return {"type": "array", "items": items, "minItems": 1}


def thing(required="", **fields):
    """An object with these fields and no other; `required` names the fields that must be there."""
    return {"type": "object", "properties": fields, "required": required.split(),
            "additionalProperties": False}


def kind(name, version, required="", **fields):
    return thing(f"apiVersion kind metadata {required}", apiVersion={"const": version},
                 kind={"const": name}, metadata=thing("name labels", name=NAME, labels=LABELS),
                 **fields)


SELECTOR = thing("matchLabels", matchLabels=LABELS)
HTTP_PROBE = thing("httpGet", httpGet=thing("path port", path=PATH, port=PORT),
                   periodSeconds=SECONDS, timeoutSeconds=SECONDS, failureThreshold=SECONDS)
RESOURCES = thing("requests", requests=thing("cpu memory", cpu=CPU, memory=BYTES),
                  limits=thing("", memory=BYTES))
CONTAINER = thing(
    "name image resources securityContext",
    name=NAME, image=TEXT, command=array(TEXT), args=array(TEXT),
    ports=array(thing("name containerPort", name=PORT_NAME, containerPort=PORT_NUMBER)),
    startupProbe=HTTP_PROBE, livenessProbe=HTTP_PROBE, readinessProbe=HTTP_PROBE,
    resources=RESOURCES,
    securityContext=thing("", allowPrivilegeEscalation=BOOLEAN, readOnlyRootFilesystem=BOOLEAN,
                          capabilities=thing("", drop=array(TEXT))),
    volumeMounts=array(thing("name mountPath", name=NAME, mountPath=PATH, readOnly=BOOLEAN)))
VOLUME = {"oneOf": [
    thing("name configMap", name=NAME, configMap=thing("name", name=NAME)),
    thing("name secret", name=NAME, secret=thing(
        "secretName", secretName=NAME,
        defaultMode={"type": "integer", "minimum": 0, "maximum": 0o777})),
    thing("name emptyDir", name=NAME, emptyDir=thing(
        "", medium=one_of("", "Memory"), sizeLimit=BYTES))]}
POD = thing(
    "containers",
    automountServiceAccountToken=BOOLEAN, enableServiceLinks=BOOLEAN,
    terminationGracePeriodSeconds=COUNT, restartPolicy=one_of("Always", "OnFailure", "Never"),
    securityContext=thing(
        "", runAsNonRoot=BOOLEAN, runAsUser=ID, runAsGroup=ID, fsGroup=ID,
        seccompProfile=thing("type", type=one_of("RuntimeDefault", "Unconfined"))),
    topologySpreadConstraints=array(thing(
        "maxSkew topologyKey whenUnsatisfiable", maxSkew=SECONDS, topologyKey=LABEL_KEY,
        whenUnsatisfiable=one_of("DoNotSchedule", "ScheduleAnyway"), labelSelector=SELECTOR)),
    initContainers=array(CONTAINER), containers=array(CONTAINER), volumes=array(VOLUME))
TEMPLATE = thing("metadata spec", metadata=thing("labels", labels=LABELS), spec=POD)
PEERS = array(thing("podSelector", podSelector=SELECTOR))
POLICY_PORTS = array(thing("port", protocol=one_of("TCP", "UDP", "SCTP"), port=PORT))
DATA = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"},
        "propertyNames": {"type": "string", "pattern": "^[-._a-zA-Z0-9]+$"}}

KINDS = {
    "Kustomization": thing(
        "apiVersion kind resources", apiVersion={"const": "kustomize.config.k8s.io/v1beta1"},
        kind={"const": "Kustomization"}, resources=array(TEXT)),
    "ConfigMap": kind("ConfigMap", "v1", "data", data=DATA),
    "Secret": kind("Secret", "v1", "stringData", type=one_of("Opaque"), stringData=DATA),
    "Deployment": kind("Deployment", "apps/v1", "spec", spec=thing(
        "selector template", replicas=COUNT, revisionHistoryLimit=COUNT,
        strategy=thing("type", type=one_of("RollingUpdate", "Recreate"),
                       rollingUpdate=thing("", maxSurge=COUNT, maxUnavailable=COUNT)),
        selector=SELECTOR, template=TEMPLATE)),
    "Service": kind("Service", "v1", "spec", spec=thing(
        "ports", clusterIP=one_of("None"), publishNotReadyAddresses=BOOLEAN, selector=LABELS,
        ports=array(thing("port", name=PORT_NAME, port=PORT_NUMBER, targetPort=PORT)))),
    "PodDisruptionBudget": kind("PodDisruptionBudget", "policy/v1", "spec", spec=thing(
        "selector", maxUnavailable=COUNT, selector=SELECTOR)),
    "NetworkPolicy": kind("NetworkPolicy", "networking.k8s.io/v1", "spec", spec=thing(
        "podSelector policyTypes", podSelector=SELECTOR,
        policyTypes=array(one_of("Ingress", "Egress")),
        ingress=array(thing("from ports", **{"from": PEERS}, ports=POLICY_PORTS)),
        egress=array(thing("ports", ports=POLICY_PORTS)))),
    "Job": kind("Job", "batch/v1", "spec", spec=thing(
        "template", backoffLimit=COUNT, activeDeadlineSeconds=SECONDS,
        ttlSecondsAfterFinished=COUNT, template=TEMPLATE)),
    "ServiceMonitor": kind("ServiceMonitor", "monitoring.coreos.com/v1", "spec", spec=thing(
        "selector endpoints", selector=SELECTOR, endpoints=array(thing(
            "", port=PORT_NAME, path=PATH,
            interval={"type": "string", "pattern": "^[0-9]+(ms|s|m)$"})))),
}
