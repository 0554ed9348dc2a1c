#include "data/networks/allowed_operators.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace wide {
namespace {

struct Group {
  const char* what;
  const char* names;  // names of ATen operators, without a trailing underscore
};

// The listed operators compute on the tensors they are given and check where they read and write.
// Not listed: files, storages (set_, resize_, _reshape_alias), memory that is not counted (pinned,
// mkldnn, quantised and packed weights), unchecked indices (ctc_loss, lu_unpack, segment_reduce,
// fractional pooling, slow convolutions), sparse and nested tensors, gradients, optimisers, other
// devices, random state, printing.
constexpr Group kOperators[] = {
    {"elementwise",
     "abs absolute acos acosh add addcdiv addcmul __and__ angle arccos arccosh arcsin arcsinh "
     "arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and bitwise_left_shift "
     "bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip "
     "complex _conj conj _conj_copy _conj_physical conj_physical copysign cos cosh deg2rad digamma "
     "div divide eq erf erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin "
     "fmod frac frexp gcd ge greater greater_equal gt heaviside hypot i0 __iand__ igamma igammac "
     "__ilshift__ imag __ior__ __irshift__ isclose isfinite isin isinf isnan isneginf isposinf "
     "isreal __ixor__ lcm ldexp le lerp less less_equal lgamma log log10 log1p log2 logaddexp "
     "logaddexp2 logical_and logical_not logical_or logical_xor logit __lshift__ lt masked_fill "
     "maximum minimum mul multiply mvlgamma nan_to_num ne neg _neg_view _neg_view_copy negative "
     "nextafter not_equal __or__ polar polygamma positive pow rad2deg real reciprocal remainder "
     "resolve_conj resolve_neg round __rshift__ rsqrt rsub sgn sigmoid sign signbit sin sinc sinh "
     "special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 "
     "special_digamma special_entr special_erf special_erfc special_erfcx special_erfinv "
     "special_exp2 special_expit special_expm1 special_gammainc special_gammaincc special_gammaln "
     "special_i0 special_i0e special_i1 special_i1e special_log1p special_log_ndtr "
     "special_log_softmax special_logit special_logsumexp special_multigammaln special_ndtr "
     "special_ndtri special_polygamma special_psi special_round special_sinc special_softmax "
     "special_xlog1py special_xlogy special_zeta sqrt square sub subtract tan tanh true_divide "
     "trunc view_as_complex view_as_complex_copy view_as_real view_as_real_copy where xlogy "
     "__xor__"},
    {"reductions, sorting, comparing",
     "all allclose amax amin _aminmax aminmax any argmax argmin argsort argwhere bincount "
     "bucketize cdist _cdist_forward corrcoef cosine_similarity count_nonzero cov cummax cummin "
     "cumprod cumsum cumulative_trapezoid diff dist equal _euclidean_dist frobenius_norm "
     "hash_tensor histc _is_all_true _is_any_true is_nonzero kthvalue linalg_matrix_norm "
     "linalg_norm linalg_vector_norm _logcumsumexp logcumsumexp logsumexp max mean median min mode "
     "msort nanmean nanmedian nanquantile nansum native_norm nonzero nonzero_numpy nonzero_static "
     "norm norm_except_dim nuclear_norm pairwise_distance pdist _pdist_forward prod quantile "
     "searchsorted sort std std_mean sum sum_to_size topk trapezoid trapz _unique _unique2 "
     "unique_consecutive unique_dim unique_dim_consecutive var var_mean"},
    {"shapes and views; `as_strided` checks that it stays in the storage",
     "adjoint alias alias_copy as_strided as_strided_copy as_strided_scatter atleast_1d atleast_2d "
     "atleast_3d block_diag broadcast_tensors broadcast_to cartesian_prod cat channel_shuffle "
     "chunk column_stack combinations concat concatenate constant_pad_nd contiguous detach "
     "detach_copy diag diag_embed diagflat diagonal diagonal_copy diagonal_scatter dsplit dstack "
     "expand expand_as expand_copy flatten flip fliplr flipud hsplit hstack lift lift_fresh "
     "lift_fresh_copy matrix_H meshgrid mH moveaxis movedim mT narrow narrow_copy "
     "native_channel_shuffle numpy_T pad _pad_circular _pad_enum pad_sequence permute permute_copy "
     "pixel_shuffle pixel_unshuffle ravel reflection_pad1d reflection_pad2d reflection_pad3d "
     "repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape "
     "reshape_as _reshape_copy roll rot90 row_stack select select_copy select_scatter slice "
     "slice_copy slice_scatter split split_copy split_with_sizes split_with_sizes_copy squeeze "
     "squeeze_copy _stack stack swapaxes swapdims t t_copy tensor_split tile transpose "
     "transpose_copy tril triu unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk "
     "unsafe_split unsafe_split_with_sizes _unsafe_view unsqueeze unsqueeze_copy vander view "
     "view_as view_copy vsplit vstack"},
    {"indexing; all check their indices",
     "embedding _embedding_bag embedding_bag _embedding_bag_forward_only embedding_renorm gather "
     "index index_add index_copy index_fill index_put index_reduce index_select masked_scatter "
     "masked_select one_hot put scatter scatter_add scatter_reduce take take_along_dim "
     "_unsafe_index _unsafe_index_put _unsafe_masked_index"},
    {"making and converting",
     "arange _autocast_to_full_precision _autocast_to_reduced_precision bartlett_window "
     "blackman_window _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int "
     "_cast_Long _cast_Short chalf clone copy _dim_arange _efficientzerotensor empty empty_like "
     "empty_permuted empty_strided eye fill fill_diagonal full full_like hamming_window "
     "hann_window kaiser_window linspace logspace new_empty new_empty_strided new_full new_ones "
     "new_zeros ones ones_like range _reshape_from_tensor scalar_tensor _shape_as_tensor to "
     "_to_copy _to_cpu tril_indices triu_indices type_as zero zeros zeros_like"},
    {"linear algebra",
     "addbmm addmm _addmm_activation addmv addr affine_grid_generator baddbmm bilinear bmm "
     "chain_matmul cholesky cholesky_inverse cholesky_solve cross det dot einsum geqrf ger inner "
     "_int_mm inverse kron linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cross _linalg_det "
     "linalg_det linalg_diagonal linalg_eig _linalg_eigh linalg_eigh _linalg_eigvals "
     "linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex "
     "linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_matmul linalg_matrix_exp "
     "linalg_matrix_power linalg_matrix_rank linalg_multi_dot linalg_pinv linalg_qr "
     "_linalg_slogdet linalg_slogdet linalg_solve _linalg_solve_ex linalg_solve_ex "
     "linalg_solve_triangular _linalg_svd linalg_svd linalg_svdvals linalg_tensorinv "
     "linalg_tensorsolve linalg_vander linalg_vecdot linear logdet matmul matrix_exp matrix_power "
     "mm mv orgqr outer pinverse qr renorm slogdet svd tensordot trace triangular_solve _trilinear "
     "vdot"},
    {"convolutions, pooling, resampling",
     "adaptive_avg_pool1d _adaptive_avg_pool2d adaptive_avg_pool2d _adaptive_avg_pool3d "
     "adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d "
     "avg_pool2d avg_pool3d col2im conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
     "conv_transpose3d _convolution convolution _convolution_mode grid_sampler grid_sampler_2d "
     "_grid_sampler_2d_cpu_fallback grid_sampler_3d im2col max_pool1d max_pool1d_with_indices "
     "max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool2d "
     "max_unpool3d slow_conv_dilated2d slow_conv_dilated3d thnn_conv2d upsample_bicubic2d "
     "_upsample_bicubic2d_aa upsample_bilinear2d _upsample_bilinear2d_aa upsample_linear1d "
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d "
     "_upsample_nearest_exact2d _upsample_nearest_exact3d upsample_trilinear3d"},
    {"normalisation",
     "batch_norm _batch_norm_impl_index _fused_rms_norm group_norm instance_norm layer_norm "
     "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
     "_native_batch_norm_legit_no_training native_group_norm native_layer_norm rms_norm "
     "_weight_norm _weight_norm_interface"},
    {"activations and losses",
     "binary_cross_entropy binary_cross_entropy_with_logits celu cosine_embedding_loss "
     "cross_entropy_loss elu gelu glu hardshrink hardsigmoid hardswish hardtanh "
     "hinge_embedding_loss huber_loss kl_div l1_loss leaky_relu log_sigmoid log_sigmoid_forward "
     "_log_softmax log_softmax margin_ranking_loss mish mse_loss multi_margin_loss "
     "multilabel_margin_loss nll_loss nll_loss2d nll_loss2d_forward nll_loss_forward nll_loss_nd "
     "poisson_nll_loss prelu _prelu_kernel relu relu6 rrelu rrelu_with_noise "
     "rrelu_with_noise_functional selu silu smooth_l1_loss soft_margin_loss _softmax softmax "
     "softplus softshrink threshold triplet_margin_loss"},
    {"attention and recurrent layers",
     "_fused_sdp_choice gru gru_cell lstm lstm_cell _masked_softmax _native_multi_head_attention "
     "_nested_tensor_from_mask _nested_tensor_from_mask_left_aligned _pack_padded_sequence "
     "_pad_packed_sequence rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell _safe_softmax "
     "scaled_dot_product_attention _scaled_dot_product_attention_math "
     "_scaled_dot_product_flash_attention_for_cpu to_padded_tensor _transformer_encoder_layer_fwd"},
    {"random draws",
     "alpha_dropout bernoulli binomial cauchy dropout exponential feature_alpha_dropout "
     "feature_dropout geometric log_normal multinomial native_dropout normal normal_functional "
     "poisson rand rand_like randint randint_like randn randn_like random randperm "
     "_sample_dirichlet _standard_gamma uniform"},
    {"Fourier transforms",
     "_fft_c2c _fft_c2r fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_hfft2 "
     "fft_hfftn fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn "
     "fft_irfft fft_irfft2 fft_irfftn _fft_r2c fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn istft "
     "stft"},
    {"fake quantisation, as quantisation-aware training leaves it",
     "fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask "
     "fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask "
     "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"},
    {"questions about tensors, and assertions",
     "_assert_async _assert_scalar _assert_tensor_metadata can_cast _functional_assert_async "
     "_functional_assert_scalar _functional_sym_constrain_range "
     "_functional_sym_constrain_range_for_size _has_same_storage_numel is_complex is_conj "
     "is_floating_point is_inference is_neg is_same_size is_signed item _local_scalar_dense "
     "promote_types result_type size stride sym_constrain_range sym_constrain_range_for_size "
     "sym_numel sym_size sym_storage_offset sym_stride"},
};

// TorchScript's own functions in the aten namespace, on numbers, text, lists, dicts, tensors.
constexpr const char* kLanguage =
    "append as_tensor bin Bool capitalize center chr clear Complex ComplexImplicit __contains__ "
    "count cpu degrees Delete __derive_index device dict dim divmod element_size endswith "
    "expandtabs extend fabs factorial find Float FloatImplicit floordiv format gamma get "
    "get_autocast_dtype get_device _get_tracing_state __getitem__ _grad_sum_to_size "
    "has_torch_function hex _infer_size insert Int __interpolate IntImplicit __is__ "
    "is_autocast_cpu_enabled is_autocast_enabled is_contiguous is_grad_enabled "
    "is_non_overlapping_and_dense is_scripting is_strides_like_format isalnum isalpha isdecimal "
    "isdigit isidentifier islower __isnot__ isnumeric isprintable isspace istitle isupper items "
    "join keys len list _list_to_tensor ljust lower lstrip mathremainder modf _ncf_unsqueeze "
    "_ncf_view _no_grad_embedding_renorm_ _no_grad_fill_ _no_grad_normal_ _no_grad_uniform_ "
    "_no_grad_zero_ __not__ numel oct ord _pack_sequence partition percentFormat pop popitem "
    "radians __range_length remove replace requires_grad_ reverse rfind rindex rjust "
    "__round_to_zero_floordiv rpartition rsplit rstrip ScalarImplicit set_grad_enabled _set_item "
    "setdefault Size _size_if_not_equal sorted splitlines startswith storage_offset str strip "
    "swapcase tensor _tensor_to_list title _unwrap_optional update upper __upsample "
    "__upsample_bilinear __upsample_nearest values warn zfill";

// Operators of the prim namespace. Not listed: Print, fork, await, Python, processes, addresses.
constexpr const char* kPrimitives =
    "abs CallFunction CallMethod Constant ConstantChunk CreateObject data device DictConstruct "
    "dtype Enter EnumName EnumValue Exit GetAttr grad If index is_cpu is_cuda is_ipu is_maia "
    "is_meta is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan "
    "is_xla is_xpu isinstance itemsize layout ListConstruct ListUnpack Loop max min "
    "ModuleContainerIndex name nbytes NumToTensor Param RaiseException rangelist requires_grad "
    "Return SetAttr shape StringIndex tolist TupleConstruct TupleIndex TupleSlice TupleUnpack "
    "type unchecked_cast unchecked_unwrap_optional Uninitialized VarConcat VarStack";

using Names = std::unordered_set<std::string_view>;

void insert(std::string_view words, Names& names) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    names.insert(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

const Names& operators() {
  static const Names names = [] {
    Names all;
    for (const Group& group : kOperators) insert(group.names, all);
    return all;
  }();
  return names;
}

Names words_of(std::string_view words) {
  Names all;
  insert(words, all);
  return all;
}

/// The name as listed: `add` for `add_`; `__iand__` keeps its underscores.
std::string_view plain(std::string_view name) {
  if (!name.ends_with("__") && name.ends_with('_')) name.remove_suffix(1);
  return name;
}

bool is_handle(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::StorageType:
    case c10::TypeKind::StreamObjType:
    case c10::TypeKind::PyObjectType:
    case c10::TypeKind::CapsuleType:
    case c10::TypeKind::QuantizerType:
      return true;
    default:
      break;
  }
  const auto contained = type->containedTypes();
  return std::any_of(contained.begin(), contained.end(),
                     [](const c10::TypePtr& t) { return is_handle(t); });
}

/// Whether the argument is an `out=` tensor, which the operator resizes and writes its result to.
bool writes_out(const c10::Argument& a) {
  return a.kwarg_only() && a.alias_info() && a.alias_info()->isWrite();
}

}  // namespace

bool may_call(const c10::FunctionSchema& schema) {
  constexpr std::string_view kAten = "aten::";
  std::string_view name = schema.name();
  if (!name.starts_with(kAten)) return false;
  name.remove_prefix(kAten.size());
  const auto& arguments = schema.arguments();
  return operators().count(plain(name)) > 0 &&
         std::none_of(arguments.begin(), arguments.end(),
                      [](const c10::Argument& a) { return is_handle(a.type()) || writes_out(a); });
}

bool may_call_in_script(c10::Symbol kind) {
  static const Names language = words_of(kLanguage), primitives = words_of(kPrimitives);
  const std::string name = kind.toUnqualString();
  return kind.is_prim() ? primitives.count(name) > 0 : kind.is_aten() && language.count(name) > 0;
}

}  // namespace wide
