#include "backend/cuda/matmul.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <iterator>

namespace clef::cuda {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what cuBLAS advises for Hopper
constexpr std::size_t kMostPlans = 8192;

}  // namespace

// The functions used, by their own names.
struct Matmul::Library {
  void* handle = nullptr;
  cublasLtHandle_t lt = nullptr;
#define CLEF_CUBLAS_FUNCTION(name) decltype(&::name) name = nullptr
  CLEF_CUBLAS_FUNCTION(cublasLtCreate);
  CLEF_CUBLAS_FUNCTION(cublasLtDestroy);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmul);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulDescCreate);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulDescDestroy);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulDescSetAttribute);
  CLEF_CUBLAS_FUNCTION(cublasLtMatrixLayoutCreate);
  CLEF_CUBLAS_FUNCTION(cublasLtMatrixLayoutDestroy);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulPreferenceCreate);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulPreferenceDestroy);
  CLEF_CUBLAS_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
#undef CLEF_CUBLAS_FUNCTION

  template <typename Function>
  Status find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, name));
    if (function == nullptr) return Error{Errc::unsupported, fmt::format("cuda: cuBLASLt has no {}", name)};
    return {};
  }
  ~Library() {
    if (lt != nullptr) cublasLtDestroy(lt);
    if (handle != nullptr) dlclose(handle);
  }
};

struct Matmul::Plan {
  explicit Plan(const Library& library_) : library(library_) {}
  ~Plan() {
    if (desc != nullptr) library.cublasLtMatmulDescDestroy(desc);
    for (cublasLtMatrixLayout_t layout : {w, x, y}) {
      if (layout != nullptr) library.cublasLtMatrixLayoutDestroy(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  const Library& library;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
};

namespace {

Status check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  return Error{Errc::device, fmt::format("cuda: {} failed with cuBLAS status {}", what, static_cast<int>(status))};
}

}  // namespace

Matmul::Matmul() = default;

Matmul::~Matmul() {
  plans_.clear();
  if (workspace_ != nullptr) cudaFree(workspace_);
}

Status Matmul::open() {
  library_ = std::make_unique<Library>();
  Library& lib = *library_;
  const std::string names[] = {fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), "libcublasLt.so",
                               fmt::format("/usr/local/cuda/lib64/libcublasLt.so.{}", CUBLAS_VER_MAJOR)};
  std::string reasons;
  for (const std::string& name : names) {
    lib.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (lib.handle != nullptr) break;
    reasons += fmt::format("\n  {}", dlerror());
  }
  if (lib.handle == nullptr) {
    return Error{Errc::unsupported,
                 fmt::format("cuda: cannot load cuBLASLt, which does the matrix products:{}", reasons)};
  }
#define CLEF_FIND(name) TRY(lib.find(#name, lib.name))
  CLEF_FIND(cublasLtCreate);
  CLEF_FIND(cublasLtDestroy);
  CLEF_FIND(cublasLtMatmul);
  CLEF_FIND(cublasLtMatmulAlgoGetHeuristic);
  CLEF_FIND(cublasLtMatmulDescCreate);
  CLEF_FIND(cublasLtMatmulDescDestroy);
  CLEF_FIND(cublasLtMatmulDescSetAttribute);
  CLEF_FIND(cublasLtMatrixLayoutCreate);
  CLEF_FIND(cublasLtMatrixLayoutDestroy);
  CLEF_FIND(cublasLtMatmulPreferenceCreate);
  CLEF_FIND(cublasLtMatmulPreferenceDestroy);
  CLEF_FIND(cublasLtMatmulPreferenceSetAttribute);
#undef CLEF_FIND
  TRY(check(lib.cublasLtCreate(&lib.lt), "cublasLtCreate"));
  if (const cudaError_t error = cudaMalloc(&workspace_, kWorkspaceBytes); error != cudaSuccess) {
    return Error{Errc::out_of_memory,
                 fmt::format("cuda: no {} bytes for cuBLAS: {}", kWorkspaceBytes, cudaGetErrorString(error))};
  }
  return {};
}

Result<const Matmul::Plan*> Matmul::plan(const Product& p) {
  const Key key = {p.rows,     p.columns,  p.depth,
                   p.x_stride, p.y_stride, (p.y_is_f32 ? 1 : 0) + (p.beta != 0 ? 2 : 0) + (p.bias != nullptr ? 4 : 0)};
  if (const auto found = plans_.find(key); found != plans_.end()) return &found->second;
  if (plans_.size() >= kMostPlans) plans_.clear();
  const Library& lib = *library_;
  const auto [place, inserted] = plans_.try_emplace(key, lib);
  Plan& plan = place->second;
  const auto build = [&]() -> Status {
    const cudaDataType_t y_type = p.y_is_f32 ? CUDA_R_32F : CUDA_R_16F;
    const auto size = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
    TRY(check(lib.cublasLtMatmulDescCreate(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate"));
    // cuBLAS counts columns first: our rows of x are its columns, and y^T = w * x^T.
    const cublasOperation_t transpose = CUBLAS_OP_T;
    TRY(check(lib.cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose),
              "TRANSA"));
    if (p.bias != nullptr) {
      const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
      TRY(check(
          lib.cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
          "EPILOGUE"));
      const void* bias = p.bias;  // set again in run(): plans are shared between weights
      TRY(check(lib.cublasLtMatmulDescSetAttribute(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                "BIAS_POINTER"));
    }
    TRY(check(lib.cublasLtMatrixLayoutCreate(&plan.w, CUDA_R_16F, size(p.depth), size(p.columns), p.depth), "layout"));
    TRY(check(lib.cublasLtMatrixLayoutCreate(&plan.x, CUDA_R_16F, size(p.depth), size(p.rows), p.x_stride), "layout"));
    TRY(check(lib.cublasLtMatrixLayoutCreate(&plan.y, y_type, size(p.columns), size(p.rows), p.y_stride), "layout"));
    cublasLtMatmulPreference_t preference = nullptr;
    TRY(check(lib.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
    const std::uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
    lib.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_reduction,
                                             sizeof no_reduction);
    lib.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                                             sizeof kWorkspaceBytes);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = lib.cublasLtMatmulAlgoGetHeuristic(lib.lt, plan.desc, plan.w, plan.x, plan.y, plan.y,
                                                                     preference, 1, &result, &found);
    lib.cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      return Error{Errc::unsupported,
                   fmt::format("cuda: cuBLAS has no product of {} rows, {} columns, depth {} (status {})", p.rows,
                               p.columns, p.depth, static_cast<int>(status))};
    }
    plan.algorithm = result.algo;
    return {};
  };
  if (Status built = build(); !built) {
    plans_.erase(place);
    return built.error();
  }
  return &plan;
}

Status Matmul::run(const Product& p, cudaStream_t stream) {
  CHECK(p.bias == nullptr || p.y_is_f32);
  const Plan* plan = TRY(this->plan(p));
  if (p.bias != nullptr) {
    const void* bias = p.bias;
    TRY(check(
        library_->cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
        "BIAS_POINTER"));
  }
  return check(library_->cublasLtMatmul(library_->lt, plan->desc, &p.alpha, p.w, plan->w, p.x, plan->x, &p.beta, p.y,
                                        plan->y, p.y, plan->y, &plan->algorithm, workspace_, kWorkspaceBytes, stream),
               "cublasLtMatmul");
}

}  // namespace clef::cuda
