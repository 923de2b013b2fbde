"""distribution.py SOURCE: Dockerfile, devcontainer, CI workflow, issue forms and CITATION.cff agree with the tree: what they name is there.
No image is built and no workflow is run. Then the same files with faults: each fault must be found."""
import json
import os
import re
import sys

try:
    import yaml
except ImportError:
    yaml = None


class Wrong(Exception):
    pass


def must(condition, text):
    if not condition:
        raise Wrong(text)


class Tree:
    """The files of the source, some of them changed."""

    def __init__(self, source, changed=None):
        self.source, self.changed = source, changed or {}

    def text(self, name):
        if name in self.changed:
            return self.changed[name]
        path = os.path.join(self.source, name)
        must(os.path.isfile(path), f"{name} is not there")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def is_program(self, name):
        path = os.path.join(self.source, name)
        return os.path.isfile(path) and os.access(path, os.X_OK)


def programs_of(tree, where, command):
    """Every script that a command names is there and may be run."""
    for name in re.findall(r"(?<![\w/.])(?:scripts|\.ci|tests)/[\w./-]+", command):
        must(tree.is_program(name), f"{where}: {name} is no program of this tree")


def dockerfile(tree):
    lines = re.sub(r"\\\n", " ", tree.text("Dockerfile")).splitlines()
    steps = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    must([step[0] for step in steps].count("FROM") >= 1 and steps[0] == ["FROM", "debian:12 AS packages"], "Dockerfile: not from debian:12")
    stages = [step[1].split()[-1] for step in steps if step[0] == "FROM"]
    runs = [step[1] for step in steps if step[0] == "RUN"]
    must(runs and runs[0].startswith("scripts/setup.sh"), "Dockerfile: packages are not those of scripts/setup.sh")
    for run in runs:
        must(not re.search(r"\bapt(-get)? install\b|\bpip3? install\b", run), f"Dockerfile installs packages by itself: {run}")
        programs_of(tree, "Dockerfile", run)
    for step in steps:
        if step[0] == "COPY":
            for name in step[1].split()[:-1]:
                must(os.path.exists(os.path.join(tree.source, name)), f"Dockerfile: {name} is not there")
    built = re.findall(r"--target ((?:\w+ ?)+)", " ".join(runs))
    wanted = re.findall(r"--target ((?:\w+ ?)+)", tree.text("scripts/demo.sh"))
    must(built and built[0].split() == wanted[0].split(), "Dockerfile does not build what scripts/demo.sh runs")
    must(steps[-1] == ["CMD", '["scripts/demo.sh"]'], "Dockerfile does not end in the demo")
    programs_of(tree, "Dockerfile", steps[-1][1].strip('[]"'))
    must({".git", "build"} <= set(tree.text(".dockerignore").split()), ".dockerignore: .git or build is sent")
    return stages


def devcontainer(tree, stages):
    box = json.loads(tree.text(".devcontainer/devcontainer.json"))
    build = box["build"]
    must(build["dockerfile"] == "../Dockerfile" and build["context"] == "..", "devcontainer.json: another Dockerfile")
    must(build["target"] in stages, f"devcontainer.json: the Dockerfile has no stage {build['target']}")
    must(box["postCreateCommand"] == "scripts/demo.sh", "devcontainer.json does not end in the demo")


def workflow(tree):
    flow = yaml.safe_load(tree.text(".github/workflows/ci.yml"))
    must(flow.get("permissions") == {"contents": "read"}, "ci.yml: may write")
    known = re.search(r'^ci_stages="([^"]+)"', tree.text("scripts/test.sh"), re.M).group(1).split()
    everything = []
    for name, job in flow["jobs"].items():
        must(job.get("container") == "debian:12" and job.get("runs-on") and job.get("timeout-minutes"), f"ci.yml: job {name} is not on debian:12")
        must(set(job.get("needs", [])) <= set(flow["jobs"]), f"ci.yml: job {name} needs one that is not there")
        for step in job["steps"]:
            must(("run" in step) != ("uses" in step), f"ci.yml: a step of {name} neither runs nor uses anything")
            command = step.get("run", "")
            programs_of(tree, "ci.yml", command)
            for stage in re.findall(r"--stage (\w+)", command):
                must(stage in known, f"ci.yml: scripts/test.sh has no stage {stage}")
            everything.append(command)
    for command in (".ci/run", "scripts/test.sh --stage installed"):
        must(command in everything, f"ci.yml does not run {command}")


def forms(tree):
    for name in ("bug", "feature"):
        file = f".github/ISSUE_TEMPLATE/{name}.yml"
        form = yaml.safe_load(tree.text(file))
        must(form["name"] and form["description"], f"{file}: no name")
        fields = {part["id"]: part for part in form["body"] if part["type"] != "markdown"}
        must(len(fields) >= 3, f"{file}: {len(fields)} fields")
        for part in fields.values():
            must(part["type"] in ("input", "textarea") and part["attributes"]["label"], f"{file}: {part['id']} has no label")
        for wanted, text in {"bug": {"version": "Version", "info": "`quire info`", "model": "config.json"}, "feature": {}}[name].items():
            part = fields.get(wanted)
            must(part and text in part["attributes"]["label"] and part["validations"]["required"], f"{file}: does not ask for {text}")
    yaml.safe_load(tree.text(".github/ISSUE_TEMPLATE/config.yml"))


def citation(tree):
    cite = yaml.safe_load(tree.text("CITATION.cff"))
    for key in ("cff-version", "message", "title", "authors", "version", "date-released"):
        must(cite.get(key), f"CITATION.cff: no {key}")
    must(cite["license"] == "Apache-2.0" and cite["cff-version"] == "1.2.0" and cite["type"] == "software", "CITATION.cff: license, form or type")


def check(tree):
    devcontainer(tree, dockerfile(tree))
    if yaml is not None:
        for part in (workflow, forms, citation):
            part(tree)


FAULTS = [  # file, what, by what, what is said
    ("Dockerfile", "FROM debian:12 AS", "FROM debian:13 AS", "not from debian:12"),
    ("Dockerfile", "RUN scripts/setup.sh", "RUN apt-get install -y g++ cmake", "are not those of scripts/setup.sh"),
    ("Dockerfile", "RUN cmake", "RUN apt-get install -y ninja-build && cmake", "by itself"),
    ("Dockerfile", "quire_driver_cpu ", "", "does not build what"),
    ("Dockerfile", 'CMD ["scripts/demo.sh"]', 'CMD ["bash"]', "does not end in the demo"),
    ("Dockerfile", "COPY scripts/setup.sh", "COPY scripts/set_up.sh", "set_up.sh is not there"),
    (".dockerignore", "build\n", "", ".dockerignore"),
    (".devcontainer/devcontainer.json", '"packages"', '"tools"', "no stage tools"),
    (".github/workflows/ci.yml", "run: .ci/run", "run: .ci/go", ".ci/go is no program"),
    (".github/workflows/ci.yml", "run: .ci/run", "run: echo", "does not run .ci/run"),
    (".github/workflows/ci.yml", "--stage installed", "--stage install", "no stage install"),
    (".github/workflows/ci.yml", "container: debian:12", "container: debian:11", "is not on debian:12"),
    (".github/workflows/ci.yml", "contents: read", "contents: write", "may write"),
    (".github/ISSUE_TEMPLATE/bug.yml", "Output of `quire info`", "Output", "does not ask for `quire info`"),
    (".github/ISSUE_TEMPLATE/feature.yml", "label: What you do now", "label:", "has no label"),
    ("CITATION.cff", "license: Apache-2.0", "license: MIT", "CITATION.cff: license"),
]


def main(source):
    tree = Tree(source)
    try:
        check(tree)
    except Wrong as wrong:
        sys.exit(f"FAILED: {wrong}")
    found = 0
    for file, what, by, said in FAULTS:
        if yaml is None and file not in ("Dockerfile", ".dockerignore", ".devcontainer/devcontainer.json"):
            continue
        text = tree.text(file)
        must(what in text, f"the fault '{what}' is not in {file}")
        try:
            check(Tree(source, {file: text.replace(what, by, 1)}))
        except Wrong as wrong:
            must(said in str(wrong), f"'{by}' in {file} is found as '{wrong}' instead of '{said}'")
            found += 1
        else:
            sys.exit(f"FAILED: '{by}' in {file} is not found")
    if yaml is None:
        print("skipped: python3 has no module yaml (Debian: python3-yaml), so CI workflow, issue forms and CITATION.cff are not read")
    print(f"what is named is there; {found} faults were found")


if __name__ == "__main__":
    main(sys.argv[1])
