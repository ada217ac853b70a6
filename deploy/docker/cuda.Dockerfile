# All programs with the CUDA and the CPU backend. Context: the top of the repository.
FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04 AS build
WORKDIR /src
COPY deploy/packages.sh deploy/packages.sh
# The headers of cuDNN's front end come as a Python package; nothing of Python stays.
RUN apt-get update -q && bash deploy/packages.sh \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-pip \
    && pip install --break-system-packages --no-deps nvidia-cudnn-frontend
COPY CMakeLists.txt CMakePresets.json README.md ./
COPY cmake cmake
COPY proto proto
COPY configs configs
COPY worker worker
COPY server server
COPY client client
RUN cmake --preset release -DENABLE_CUDA=ON -DENABLE_TESTS=OFF \
    && cmake --build --preset release --target coat coat-server coat-worker coat-train
RUN mkdir -p /corpus \
    && find README.md configs proto server client -name '*.md' -o -name '*.h' -o -name '*.proto' \
       | LC_ALL=C sort | xargs cat > /corpus/coatrack.txt
# CUDA's own libraries are in the base image of the next stage.
RUN ldd build/release/bin/coat build/release/bin/coat-server build/release/bin/coat-worker \
        build/release/bin/coat-train | awk '$3 ~ /^\// && $3 !~ /cuda|cudnn|nccl|nvidia/ {print $3}' \
    | sort -u | xargs realpath | sed 'p;s,^/usr,,' | xargs dpkg -S 2>/dev/null | cut -d: -f1 | sort -u > /runtime-packages

FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04 AS runtime
COPY --from=build /runtime-packages /tmp/runtime-packages
RUN apt-get update -q \
    && xargs apt-get install -y -q --no-install-recommends < /tmp/runtime-packages \
    && rm -rf /var/lib/apt/lists/* /tmp/runtime-packages
COPY --from=build /src/build/release/bin/coat /src/build/release/bin/coat-server \
     /src/build/release/bin/coat-worker /src/build/release/bin/coat-train /usr/local/bin/
COPY --from=build /corpus /usr/share/coatrack/data/corpus
COPY configs/jobs /usr/share/coatrack/jobs
COPY --chmod=0755 deploy/docker/init.sh /usr/local/bin/coat-init
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin coatrack \
    && install -d -o 10001 -g 10001 /var/lib/coatrack/server /var/lib/coatrack/worker /checkpoints
ENV HOME=/tmp
USER 10001:10001
CMD ["coat", "--help"]
