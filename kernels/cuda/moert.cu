// SPDX-License-Identifier: Apache-2.0
// Every kernel of moert.fatbin, in one translation unit: a fatbin holds one module an architecture.
#include "kernels/common/ceilings.h"
#include "kernels/common/combine.h"
#include "kernels/common/gate.h"
#include "kernels/common/grouping.h"
#include "kernels/common/linear_generic.h"
#include "kernels/common/logits.h"
#include "kernels/common/rows.h"
#include "kernels/common/top_k.h"
#include "kernels/cuda/linear_mma.h"
#include "kernels/cuda/linear_stream.h"

// The library refuses a file whose number is not its own.
extern "C" __device__ const unsigned moert_kernel_abi = MOERT_KERNEL_ABI;
