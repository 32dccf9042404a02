# The server, nothing else: no compiler, no tests, no root. State is in /data/.agentkit (a volume keeps it), or where AGENTKIT_ENGINE says.
#   docker build -t agentkit . && docker run -p 127.0.0.1:8000:8000 agentkit
FROM python:3.13-slim

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

COPY pyproject.toml constraints.txt README.md LICENSE /src/
COPY agentkit /src/agentkit
COPY transports /src/transports
COPY server /src/server
RUN pip install -c /src/constraints.txt '/src[server,fast,redis]' \
    && rm -r /src \
    && useradd --system --create-home --home-dir /data --uid 10001 agentkit

USER agentkit
WORKDIR /data
EXPOSE 8000

# Inside a container 0.0.0.0 is the container, and what `-p` publishes is who may reach it: the server cannot know, so it is told.
# Publish to 127.0.0.1, or put something with authentication in front, until the server has its own.
CMD ["agentkit", "serve", "--host", "0.0.0.0", "--port", "8000", "--insecure-no-auth"]
