# One image for dm-master, dm-worker and dmctl; the command says which.
FROM python:3.11-slim-bookworm AS build
# The compiled row kernel: without a compiler the image would work with the Python code, which is many times slower.
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
RUN python -m venv /opt/dm && /opt/dm/bin/pip install --no-cache-dir . \
 && cd / && DM_KERNEL=native /opt/dm/bin/python -c "import pkg.binlog.row_decoder"

FROM python:3.11-slim-bookworm
# Java for Spark, etcd for dm-master's own member, setpriv so that children end with their parent, tini to reap them.
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless etcd-server util-linux tini curl procps \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/dm --create-home dm \
 && mkdir -p /etc/dm && chown dm:dm /etc/dm
COPY --from=build /opt/dm /opt/dm
ENV PATH=/opt/dm/bin:$PATH PYTHONUNBUFFERED=1 PYSPARK_PYTHON=/opt/dm/bin/python
# A file from which Spark's JVM starts in half the time.
RUN python -m dm_worker.engine.class_archive
USER dm
WORKDIR /var/lib/dm
VOLUME /var/lib/dm
EXPOSE 8261 8262
# Without -g: the programs end their own children, in the right order.
ENTRYPOINT ["tini", "--"]
CMD ["dmctl", "--help"]
