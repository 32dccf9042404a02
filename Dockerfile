# The server, nothing else: no compiler, no tests, no root. Threads and logs are in /data: keep it in a volume.
#   docker build -t agentkit .
#   docker run -p 127.0.0.1:8000:8000 -v agentkit:/data --read-only --tmpfs /tmp -e AGENTKIT_API_KEYS="$(cat keys)" agentkit
FROM python:3.13-slim

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY agentkit /src/agentkit
COPY transports /src/transports
COPY server /src/server
RUN pip install -c /src/constraints.txt '/src[server,fast,redis,otel]' \
    && rm -r /src \
    && useradd --system --create-home --home-dir /data --uid 10001 agentkit

USER agentkit
WORKDIR /data
VOLUME /data
EXPOSE 8000 9000

# AGENTKIT_DATA is the folder of the SQLite file; AGENTKIT_ENGINE=redis://… keeps all elsewhere, and nothing is written here.
# Metrics are on a port of their own, for the network of who looks after it: do not publish 9000.
ENV AGENTKIT_DATA=/data AGENTKIT_METRICS_PORT=9000 AGENTKIT_METRICS_HOST=0.0.0.0 AGENTKIT_LOG_FORMAT=json

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]

# Inside a container 0.0.0.0 is the container, and `-p` says who may reach it. Without AGENTKIT_API_KEYS or AGENTKIT_JWT_… the command
# refuses that address; to try it on this machine only, publish to 127.0.0.1 and give the command yourself, with --insecure-no-auth:
#   docker run -p 127.0.0.1:8000:8000 agentkit agentkit serve --host 0.0.0.0 --insecure-no-auth
CMD ["agentkit", "serve", "--host", "0.0.0.0", "--port", "8000"]
