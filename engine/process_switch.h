#pragma once

namespace wide {

// Two switches of LibTorch hold for the whole process. Each is off while at least one of these
// lives, in whatever threads: the first one turns it off, the last one puts it back. Other threads
// run without it meanwhile, which changes results by rounding and times, nothing else.

/// oneDNN kernels behind ATen's own operators.
class OneDnnOff {
 public:
  OneDnnOff();
  ~OneDnnOff();
  OneDnnOff(const OneDnnOff&) = delete;
  OneDnnOff& operator=(const OneDnnOff&) = delete;
};

/// vmap's slow loop for operators without a batching rule, which are then an error.
class VmapFallbackOff {
 public:
  VmapFallbackOff();
  ~VmapFallbackOff();
  VmapFallbackOff(const VmapFallbackOff&) = delete;
  VmapFallbackOff& operator=(const VmapFallbackOff&) = delete;
};

}  // namespace wide
