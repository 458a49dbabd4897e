# Built in two stages: the final image holds the virtual environment and nothing to build with.
FROM python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/fabriclens
COPY requirements.lock requirements-build.lock ./
RUN /opt/fabriclens/bin/pip install --require-hashes -r requirements.lock \
 && python -m pip install --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY fabriclens fabriclens
COPY collector collector
COPY classifier classifier
COPY analyzer analyzer
COPY exporters exporters
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/fabriclens/bin/pip install --no-deps /wheels/*.whl \
 && /opt/fabriclens/bin/python -m compileall -q /opt/fabriclens \
 && /opt/fabriclens/bin/python -m pip uninstall -y pip setuptools

FROM python:3.11-slim
LABEL org.opencontainers.image.title="fabriclens" \
      org.opencontainers.image.description="Sees the workload in the network of an AI training cluster" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/fabriclens /opt/fabriclens
ENV PATH=/opt/fabriclens/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
# Nothing is written outside an operator's own volumes: run with a read-only root.
USER 65532:65532
EXPOSE 9400
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s \
    CMD ["fabriclens", "check", "--live", "http://127.0.0.1:9400"]
ENTRYPOINT ["fabriclens"]
CMD ["run", "--host", "0.0.0.0"]
