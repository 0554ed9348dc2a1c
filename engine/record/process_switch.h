#pragma once

namespace wide {

// These switches of LibTorch are global to the process. Each is off while an object of its class
// exists in any thread: the first one turns it off, the last one restores it. Other threads run
// without it meanwhile: oneDNN and cuDNN change only their rounding and times, but a vmap of theirs
// that needs the fallback throws.

/// oneDNN kernels behind ATen's own operators.
class OneDnnOff {
 public:
  OneDnnOff();
  ~OneDnnOff();
  OneDnnOff(const OneDnnOff&) = delete;
  OneDnnOff& operator=(const OneDnnOff&) = delete;
};

/// cuDNN kernels behind ATen's own operators.
class CudnnOff {
 public:
  CudnnOff();
  ~CudnnOff();
  CudnnOff(const CudnnOff&) = delete;
  CudnnOff& operator=(const CudnnOff&) = delete;
};

/// vmap's slow loop for operators without a batching rule; calling these is then an error.
class VmapFallbackOff {
 public:
  VmapFallbackOff();
  ~VmapFallbackOff();
  VmapFallbackOff(const VmapFallbackOff&) = delete;
  VmapFallbackOff& operator=(const VmapFallbackOff&) = delete;
};

}  // namespace wide
