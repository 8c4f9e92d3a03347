# One image for every process: `docker run knowledge-worker api`, `… worker`, `… beat`, `… flower`, `… migrate`.
# Your own declarations: FROM this image, COPY your package into the working directory, set KNOWLEDGE_APP.
ARG PYTHON_VERSION=3.13

FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /src
# The environment is made without pip, so that none reaches the image that runs.
RUN python -m venv --without-pip /opt/knowledge
COPY constraints.txt pyproject.toml hatch_build.py README.md LICENSE beat_schedule.py ./
COPY api ./api
COPY knowledge_worker ./knowledge_worker
ENV PIP_CACHE_DIR=/var/cache/pip
RUN --mount=type=cache,target=/var/cache/pip \
    pip install --quiet --root-user-action ignore --constraint constraints.txt pip \
 && pip --python /opt/knowledge/bin/python install --quiet --constraint constraints.txt \
      --build-constraint constraints.txt '.[local,otel]'

FROM python:${PYTHON_VERSION}-slim
LABEL org.opencontainers.image.title="knowledge-worker" \
      org.opencontainers.image.description="Reference material for AI agents: indexed in the background, searched by meaning." \
      org.opencontainers.image.source="https://github.com/knowledge-worker/knowledge-worker" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --create-home --home-dir /srv/knowledge knowledge
COPY --from=build /opt/knowledge /opt/knowledge
# A container's loopback is reached by nobody else, so servers listen on every address of the container.
ENV PATH="/opt/knowledge/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    KNOWLEDGE_HOST=0.0.0.0 \
    KNOWLEDGE_LOG_FORMAT=json
WORKDIR /srv/knowledge
USER 10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["knowledge-worker"]
CMD ["--help"]
