#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs NVIDIA's compiler from its PyPI wheels into a folder, where there is no nvcc, and prints the
# folder to put into CUDA_HOME.
#   tests/install_nvcc.sh FOLDER
set -euo pipefail
folder=${1:?usage: tests/install_nvcc.sh FOLDER}
home=$folder/nvidia/cu13
if [ ! -x "$home/bin/nvcc" ]; then
  packages=()
  for name in nvcc crt runtime cccl; do packages+=("nvidia-cuda-$name==13.0.*"); done
  python3 -m pip install --quiet --no-deps --target "$folder" "${packages[@]}" "nvidia-nvvm==13.0.*" >&2
  chmod +x "$home"/bin/*
fi
echo "$home"
