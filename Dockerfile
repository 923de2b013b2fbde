# quire on Debian 12, without a GPU:
#   docker build -t quire . && docker run --rm quire     builds and runs the demo
#   docker run --rm quire scripts/test.sh                builds everything and runs the tests
FROM debian:12 AS packages
WORKDIR /quire
COPY scripts/setup.sh scripts/
RUN scripts/setup.sh && rm -rf /var/lib/apt/lists/*

FROM packages AS demo
COPY . .
RUN cmake --preset release && cmake --build --preset release -j "$(nproc)" --target quire_engine quire_driver_cpu quire_command quire_generate lm_parity
CMD ["scripts/demo.sh"]
