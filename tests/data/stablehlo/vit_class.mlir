module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64xf32> loc("variables['params']['Conv_0']['bias']"), %arg1: tensor<8x8x3x64xf32> loc("variables['params']['Conv_0']['kernel']"), %arg2: tensor<10xf32> loc("variables['params']['Dense_0']['bias']"), %arg3: tensor<64x10xf32> loc("variables['params']['Dense_0']['kernel']"), %arg4: tensor<256xf32> loc("variables['params']['Encoder_0']['Dense_0']['bias']"), %arg5: tensor<64x256xf32> loc("variables['params']['Encoder_0']['Dense_0']['kernel']"), %arg6: tensor<64xf32> loc("variables['params']['Encoder_0']['Dense_1']['bias']"), %arg7: tensor<256x64xf32> loc("variables['params']['Encoder_0']['Dense_1']['kernel']"), %arg8: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_0']['bias']"), %arg9: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_0']['scale']"), %arg10: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_1']['bias']"), %arg11: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_1']['scale']"), %arg12: tensor<4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg13: tensor<64x4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg14: tensor<64xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg15: tensor<4x16x64xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg16: tensor<4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg17: tensor<64x4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg18: tensor<4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg19: tensor<64x4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg20: tensor<256xf32> loc("variables['params']['Encoder_1']['Dense_0']['bias']"), %arg21: tensor<64x256xf32> loc("variables['params']['Encoder_1']['Dense_0']['kernel']"), %arg22: tensor<64xf32> loc("variables['params']['Encoder_1']['Dense_1']['bias']"), %arg23: tensor<256x64xf32> loc("variables['params']['Encoder_1']['Dense_1']['kernel']"), %arg24: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_0']['bias']"), %arg25: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_0']['scale']"), %arg26: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_1']['bias']"), %arg27: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_1']['scale']"), %arg28: tensor<4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg29: tensor<64x4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg30: tensor<64xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg31: tensor<4x16x64xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg32: tensor<4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg33: tensor<64x4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg34: tensor<4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg35: tensor<64x4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg36: tensor<256xf32> loc("variables['params']['Encoder_2']['Dense_0']['bias']"), %arg37: tensor<64x256xf32> loc("variables['params']['Encoder_2']['Dense_0']['kernel']"), %arg38: tensor<64xf32> loc("variables['params']['Encoder_2']['Dense_1']['bias']"), %arg39: tensor<256x64xf32> loc("variables['params']['Encoder_2']['Dense_1']['kernel']"), %arg40: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_0']['bias']"), %arg41: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_0']['scale']"), %arg42: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_1']['bias']"), %arg43: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_1']['scale']"), %arg44: tensor<4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg45: tensor<64x4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg46: tensor<64xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg47: tensor<4x16x64xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg48: tensor<4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg49: tensor<64x4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg50: tensor<4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg51: tensor<64x4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg52: tensor<64xf32> loc("variables['params']['LayerNorm_0']['bias']"), %arg53: tensor<64xf32> loc("variables['params']['LayerNorm_0']['scale']"), %arg54: tensor<1x1x64xf32> loc("variables['params']['class']"), %arg55: tensor<1x17x64xf32> loc("variables['params']['positions']"), %arg56: tensor<2x32x32x3xf32> loc("x")) -> (tensor<2x10xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg56 : (tensor<2x32x32x3xf32>) -> tensor<2x32x32x3xbf16>
    %1 = stablehlo.convert %arg1 : (tensor<8x8x3x64xf32>) -> tensor<8x8x3x64xbf16>
    %2 = stablehlo.convert %arg0 : (tensor<64xf32>) -> tensor<64xbf16>
    %3 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [8, 8], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x32x32x3xbf16>, tensor<8x8x3x64xbf16>) -> tensor<2x4x4x64xbf16>
    %4 = stablehlo.reshape %2 : (tensor<64xbf16>) -> tensor<1x1x1x64xbf16>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xbf16>) -> tensor<2x4x4x64xbf16>
    %6 = stablehlo.add %3, %5 : tensor<2x4x4x64xbf16>
    %7 = stablehlo.reshape %6 : (tensor<2x4x4x64xbf16>) -> tensor<2x16x64xbf16>
    %8 = stablehlo.convert %arg54 : (tensor<1x1x64xf32>) -> tensor<1x1x64xbf16>
    %9 = stablehlo.reshape %8 : (tensor<1x1x64xbf16>) -> tensor<1x1x1x1x1x64xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2, 3, 4, 5] : (tensor<1x1x1x1x1x64xbf16>) -> tensor<2x1x1x1x1x64xbf16>
    %11 = stablehlo.reshape %10 : (tensor<2x1x1x1x1x64xbf16>) -> tensor<2x1x64xbf16>
    %12 = stablehlo.concatenate %11, %7, dim = 1 : (tensor<2x1x64xbf16>, tensor<2x16x64xbf16>) -> tensor<2x17x64xbf16>
    %13 = stablehlo.convert %arg55 : (tensor<1x17x64xf32>) -> tensor<1x17x64xbf16>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<1x17x64xbf16>) -> tensor<2x17x64xbf16>
    %15 = stablehlo.add %12, %14 : tensor<2x17x64xbf16>
    %16 = stablehlo.convert %15 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %17 = chlo.square %16 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%16 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %20 = stablehlo.divide %18, %19 : tensor<2x17xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%17 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %23 = stablehlo.divide %21, %22 : tensor<2x17xf32>
    %24 = chlo.square %20 : tensor<2x17xf32> -> tensor<2x17xf32>
    %25 = stablehlo.subtract %23, %24 : tensor<2x17xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %27 = stablehlo.maximum %26, %25 : tensor<2x17xf32>
    %28 = stablehlo.broadcast_in_dim %20, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %29 = stablehlo.broadcast_in_dim %27, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %30 = stablehlo.convert %15 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %31 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %32 = stablehlo.subtract %30, %31 : tensor<2x17x64xf32>
    %cst_4 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %34 = stablehlo.add %29, %33 : tensor<2x17x1xf32>
    %35 = stablehlo.rsqrt %34 : tensor<2x17x1xf32>
    %36 = stablehlo.reshape %arg9 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %37 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %38 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<2x17x64xf32>
    %40 = stablehlo.multiply %32, %39 : tensor<2x17x64xf32>
    %41 = stablehlo.reshape %arg8 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %42 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %43 = stablehlo.add %40, %42 : tensor<2x17x64xf32>
    %44 = stablehlo.convert %43 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %45 = stablehlo.convert %arg17 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %46 = stablehlo.convert %arg16 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %47 = stablehlo.dot_general %44, %45, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %48 = stablehlo.reshape %46 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %50 = stablehlo.add %47, %49 : tensor<2x17x4x16xbf16>
    %51 = stablehlo.convert %arg13 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %52 = stablehlo.convert %arg12 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %53 = stablehlo.dot_general %44, %51, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %54 = stablehlo.reshape %52 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %56 = stablehlo.add %53, %55 : tensor<2x17x4x16xbf16>
    %57 = stablehlo.convert %arg19 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %58 = stablehlo.convert %arg18 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %59 = stablehlo.dot_general %44, %57, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %60 = stablehlo.reshape %58 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %62 = stablehlo.add %59, %61 : tensor<2x17x4x16xbf16>
    %cst_5 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %63 = stablehlo.sqrt %cst_5 : tensor<f32>
    %64 = stablehlo.convert %63 : (tensor<f32>) -> tensor<bf16>
    %65 = stablehlo.broadcast_in_dim %64, dims = [] : (tensor<bf16>) -> tensor<2x17x4x16xbf16>
    %66 = stablehlo.divide %50, %65 : tensor<2x17x4x16xbf16>
    %67 = stablehlo.dot_general %66, %56, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<2x17x4x16xbf16>) -> tensor<2x4x17x17xbf16>
    %cst_6 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %68 = stablehlo.reduce(%67 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x17x17xbf16>, tensor<bf16>) -> tensor<2x4x17xbf16>
    %cst_7 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %69 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<2x4x17xbf16>
    %70 = stablehlo.maximum %69, %68 : tensor<2x4x17xbf16>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2] : (tensor<2x4x17xbf16>) -> tensor<2x4x17x1xbf16>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<2x4x17x1xbf16>) -> tensor<2x4x17x17xbf16>
    %73 = stablehlo.subtract %67, %72 : tensor<2x4x17x17xbf16>
    %74 = stablehlo.exponential %73 : tensor<2x4x17x17xbf16>
    %75 = stablehlo.convert %74 : (tensor<2x4x17x17xbf16>) -> tensor<2x4x17x17xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x4x17x17xf32>, tensor<f32>) -> tensor<2x4x17xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<2x4x17xf32>) -> tensor<2x4x17x1xf32>
    %78 = stablehlo.convert %77 : (tensor<2x4x17x1xf32>) -> tensor<2x4x17x1xbf16>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<2x4x17x1xbf16>) -> tensor<2x4x17x17xbf16>
    %80 = stablehlo.divide %74, %79 : tensor<2x4x17x17xbf16>
    %81 = stablehlo.dot_general %62, %80, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<2x4x17x17xbf16>) -> tensor<2x4x16x17xbf16>
    %82 = stablehlo.transpose %81, dims = [0, 3, 1, 2] : (tensor<2x4x16x17xbf16>) -> tensor<2x17x4x16xbf16>
    %83 = stablehlo.convert %arg15 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %84 = stablehlo.convert %arg14 : (tensor<64xf32>) -> tensor<64xbf16>
    %85 = stablehlo.dot_general %82, %83, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x17x64xbf16>
    %86 = stablehlo.reshape %84 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x17x64xbf16>
    %88 = stablehlo.add %85, %87 : tensor<2x17x64xbf16>
    %89 = stablehlo.add %15, %88 : tensor<2x17x64xbf16>
    %90 = stablehlo.convert %89 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %91 = chlo.square %90 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.reduce(%90 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_10 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %94 = stablehlo.divide %92, %93 : tensor<2x17xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.reduce(%91 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %97 = stablehlo.divide %95, %96 : tensor<2x17xf32>
    %98 = chlo.square %94 : tensor<2x17xf32> -> tensor<2x17xf32>
    %99 = stablehlo.subtract %97, %98 : tensor<2x17xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %101 = stablehlo.maximum %100, %99 : tensor<2x17xf32>
    %102 = stablehlo.broadcast_in_dim %94, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %103 = stablehlo.broadcast_in_dim %101, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %104 = stablehlo.convert %89 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %105 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %106 = stablehlo.subtract %104, %105 : tensor<2x17x64xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %108 = stablehlo.add %103, %107 : tensor<2x17x1xf32>
    %109 = stablehlo.rsqrt %108 : tensor<2x17x1xf32>
    %110 = stablehlo.reshape %arg11 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %111 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %112 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %113 = stablehlo.multiply %111, %112 : tensor<2x17x64xf32>
    %114 = stablehlo.multiply %106, %113 : tensor<2x17x64xf32>
    %115 = stablehlo.reshape %arg10 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %117 = stablehlo.add %114, %116 : tensor<2x17x64xf32>
    %118 = stablehlo.convert %117 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %119 = stablehlo.convert %arg5 : (tensor<64x256xf32>) -> tensor<64x256xbf16>
    %120 = stablehlo.convert %arg4 : (tensor<256xf32>) -> tensor<256xbf16>
    %121 = stablehlo.dot_general %118, %119, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x256xbf16>) -> tensor<2x17x256xbf16>
    %122 = stablehlo.reshape %120 : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x17x256xbf16>
    %124 = stablehlo.add %121, %123 : tensor<2x17x256xbf16>
    %cst_15 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %125 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<2x17x256xbf16>
    %126 = stablehlo.multiply %125, %124 : tensor<2x17x256xbf16>
    %127 = stablehlo.negate %124 : tensor<2x17x256xbf16>
    %cst_16 = stablehlo.constant dense<7.070310e-01> : tensor<bf16>
    %128 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<2x17x256xbf16>
    %129 = stablehlo.multiply %127, %128 : tensor<2x17x256xbf16>
    %130 = chlo.erfc %129 : tensor<2x17x256xbf16> -> tensor<2x17x256xbf16>
    %131 = stablehlo.multiply %126, %130 : tensor<2x17x256xbf16>
    %132 = stablehlo.convert %arg7 : (tensor<256x64xf32>) -> tensor<256x64xbf16>
    %133 = stablehlo.convert %arg6 : (tensor<64xf32>) -> tensor<64xbf16>
    %134 = stablehlo.dot_general %131, %132, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x256xbf16>, tensor<256x64xbf16>) -> tensor<2x17x64xbf16>
    %135 = stablehlo.reshape %133 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x17x64xbf16>
    %137 = stablehlo.add %134, %136 : tensor<2x17x64xbf16>
    %138 = stablehlo.add %89, %137 : tensor<2x17x64xbf16>
    %139 = stablehlo.convert %138 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %140 = chlo.square %139 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %141 = stablehlo.reduce(%139 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_18 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %142 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %143 = stablehlo.divide %141, %142 : tensor<2x17xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.reduce(%140 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_20 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %145 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %146 = stablehlo.divide %144, %145 : tensor<2x17xf32>
    %147 = chlo.square %143 : tensor<2x17xf32> -> tensor<2x17xf32>
    %148 = stablehlo.subtract %146, %147 : tensor<2x17xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %149 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %150 = stablehlo.maximum %149, %148 : tensor<2x17xf32>
    %151 = stablehlo.broadcast_in_dim %143, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %152 = stablehlo.broadcast_in_dim %150, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %153 = stablehlo.convert %138 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %154 = stablehlo.broadcast_in_dim %151, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %155 = stablehlo.subtract %153, %154 : tensor<2x17x64xf32>
    %cst_22 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %156 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %157 = stablehlo.add %152, %156 : tensor<2x17x1xf32>
    %158 = stablehlo.rsqrt %157 : tensor<2x17x1xf32>
    %159 = stablehlo.reshape %arg25 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %160 = stablehlo.broadcast_in_dim %158, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %161 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %162 = stablehlo.multiply %160, %161 : tensor<2x17x64xf32>
    %163 = stablehlo.multiply %155, %162 : tensor<2x17x64xf32>
    %164 = stablehlo.reshape %arg24 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %165 = stablehlo.broadcast_in_dim %164, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %166 = stablehlo.add %163, %165 : tensor<2x17x64xf32>
    %167 = stablehlo.convert %166 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %168 = stablehlo.convert %arg33 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %169 = stablehlo.convert %arg32 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %170 = stablehlo.dot_general %167, %168, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %171 = stablehlo.reshape %169 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %172 = stablehlo.broadcast_in_dim %171, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %173 = stablehlo.add %170, %172 : tensor<2x17x4x16xbf16>
    %174 = stablehlo.convert %arg29 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %175 = stablehlo.convert %arg28 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %176 = stablehlo.dot_general %167, %174, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %177 = stablehlo.reshape %175 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %179 = stablehlo.add %176, %178 : tensor<2x17x4x16xbf16>
    %180 = stablehlo.convert %arg35 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %181 = stablehlo.convert %arg34 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %182 = stablehlo.dot_general %167, %180, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %183 = stablehlo.reshape %181 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %185 = stablehlo.add %182, %184 : tensor<2x17x4x16xbf16>
    %cst_23 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %186 = stablehlo.sqrt %cst_23 : tensor<f32>
    %187 = stablehlo.convert %186 : (tensor<f32>) -> tensor<bf16>
    %188 = stablehlo.broadcast_in_dim %187, dims = [] : (tensor<bf16>) -> tensor<2x17x4x16xbf16>
    %189 = stablehlo.divide %173, %188 : tensor<2x17x4x16xbf16>
    %190 = stablehlo.dot_general %189, %179, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<2x17x4x16xbf16>) -> tensor<2x4x17x17xbf16>
    %cst_24 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %191 = stablehlo.reduce(%190 init: %cst_24) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x17x17xbf16>, tensor<bf16>) -> tensor<2x4x17xbf16>
    %cst_25 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %192 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<bf16>) -> tensor<2x4x17xbf16>
    %193 = stablehlo.maximum %192, %191 : tensor<2x4x17xbf16>
    %194 = stablehlo.broadcast_in_dim %193, dims = [0, 1, 2] : (tensor<2x4x17xbf16>) -> tensor<2x4x17x1xbf16>
    %195 = stablehlo.broadcast_in_dim %194, dims = [0, 1, 2, 3] : (tensor<2x4x17x1xbf16>) -> tensor<2x4x17x17xbf16>
    %196 = stablehlo.subtract %190, %195 : tensor<2x4x17x17xbf16>
    %197 = stablehlo.exponential %196 : tensor<2x4x17x17xbf16>
    %198 = stablehlo.convert %197 : (tensor<2x4x17x17xbf16>) -> tensor<2x4x17x17xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %199 = stablehlo.reduce(%198 init: %cst_26) applies stablehlo.add across dimensions = [3] : (tensor<2x4x17x17xf32>, tensor<f32>) -> tensor<2x4x17xf32>
    %200 = stablehlo.broadcast_in_dim %199, dims = [0, 1, 2] : (tensor<2x4x17xf32>) -> tensor<2x4x17x1xf32>
    %201 = stablehlo.convert %200 : (tensor<2x4x17x1xf32>) -> tensor<2x4x17x1xbf16>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1, 2, 3] : (tensor<2x4x17x1xbf16>) -> tensor<2x4x17x17xbf16>
    %203 = stablehlo.divide %197, %202 : tensor<2x4x17x17xbf16>
    %204 = stablehlo.dot_general %185, %203, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<2x4x17x17xbf16>) -> tensor<2x4x16x17xbf16>
    %205 = stablehlo.transpose %204, dims = [0, 3, 1, 2] : (tensor<2x4x16x17xbf16>) -> tensor<2x17x4x16xbf16>
    %206 = stablehlo.convert %arg31 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %207 = stablehlo.convert %arg30 : (tensor<64xf32>) -> tensor<64xbf16>
    %208 = stablehlo.dot_general %205, %206, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x17x64xbf16>
    %209 = stablehlo.reshape %207 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %210 = stablehlo.broadcast_in_dim %209, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x17x64xbf16>
    %211 = stablehlo.add %208, %210 : tensor<2x17x64xbf16>
    %212 = stablehlo.add %138, %211 : tensor<2x17x64xbf16>
    %213 = stablehlo.convert %212 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %214 = chlo.square %213 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%213 init: %cst_27) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_28 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %217 = stablehlo.divide %215, %216 : tensor<2x17xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %218 = stablehlo.reduce(%214 init: %cst_29) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_30 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %219 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %220 = stablehlo.divide %218, %219 : tensor<2x17xf32>
    %221 = chlo.square %217 : tensor<2x17xf32> -> tensor<2x17xf32>
    %222 = stablehlo.subtract %220, %221 : tensor<2x17xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %224 = stablehlo.maximum %223, %222 : tensor<2x17xf32>
    %225 = stablehlo.broadcast_in_dim %217, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %226 = stablehlo.broadcast_in_dim %224, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %227 = stablehlo.convert %212 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %228 = stablehlo.broadcast_in_dim %225, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %229 = stablehlo.subtract %227, %228 : tensor<2x17x64xf32>
    %cst_32 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %230 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %231 = stablehlo.add %226, %230 : tensor<2x17x1xf32>
    %232 = stablehlo.rsqrt %231 : tensor<2x17x1xf32>
    %233 = stablehlo.reshape %arg27 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %234 = stablehlo.broadcast_in_dim %232, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %235 = stablehlo.broadcast_in_dim %233, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %236 = stablehlo.multiply %234, %235 : tensor<2x17x64xf32>
    %237 = stablehlo.multiply %229, %236 : tensor<2x17x64xf32>
    %238 = stablehlo.reshape %arg26 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %239 = stablehlo.broadcast_in_dim %238, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %240 = stablehlo.add %237, %239 : tensor<2x17x64xf32>
    %241 = stablehlo.convert %240 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %242 = stablehlo.convert %arg21 : (tensor<64x256xf32>) -> tensor<64x256xbf16>
    %243 = stablehlo.convert %arg20 : (tensor<256xf32>) -> tensor<256xbf16>
    %244 = stablehlo.dot_general %241, %242, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x256xbf16>) -> tensor<2x17x256xbf16>
    %245 = stablehlo.reshape %243 : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x17x256xbf16>
    %247 = stablehlo.add %244, %246 : tensor<2x17x256xbf16>
    %cst_33 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %248 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<bf16>) -> tensor<2x17x256xbf16>
    %249 = stablehlo.multiply %248, %247 : tensor<2x17x256xbf16>
    %250 = stablehlo.negate %247 : tensor<2x17x256xbf16>
    %cst_34 = stablehlo.constant dense<7.070310e-01> : tensor<bf16>
    %251 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<bf16>) -> tensor<2x17x256xbf16>
    %252 = stablehlo.multiply %250, %251 : tensor<2x17x256xbf16>
    %253 = chlo.erfc %252 : tensor<2x17x256xbf16> -> tensor<2x17x256xbf16>
    %254 = stablehlo.multiply %249, %253 : tensor<2x17x256xbf16>
    %255 = stablehlo.convert %arg23 : (tensor<256x64xf32>) -> tensor<256x64xbf16>
    %256 = stablehlo.convert %arg22 : (tensor<64xf32>) -> tensor<64xbf16>
    %257 = stablehlo.dot_general %254, %255, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x256xbf16>, tensor<256x64xbf16>) -> tensor<2x17x64xbf16>
    %258 = stablehlo.reshape %256 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %259 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x17x64xbf16>
    %260 = stablehlo.add %257, %259 : tensor<2x17x64xbf16>
    %261 = stablehlo.add %212, %260 : tensor<2x17x64xbf16>
    %262 = stablehlo.convert %261 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %263 = chlo.square %262 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %264 = stablehlo.reduce(%262 init: %cst_35) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_36 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %265 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %266 = stablehlo.divide %264, %265 : tensor<2x17xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %267 = stablehlo.reduce(%263 init: %cst_37) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_38 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %268 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %269 = stablehlo.divide %267, %268 : tensor<2x17xf32>
    %270 = chlo.square %266 : tensor<2x17xf32> -> tensor<2x17xf32>
    %271 = stablehlo.subtract %269, %270 : tensor<2x17xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %273 = stablehlo.maximum %272, %271 : tensor<2x17xf32>
    %274 = stablehlo.broadcast_in_dim %266, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %275 = stablehlo.broadcast_in_dim %273, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %276 = stablehlo.convert %261 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %277 = stablehlo.broadcast_in_dim %274, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %278 = stablehlo.subtract %276, %277 : tensor<2x17x64xf32>
    %cst_40 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %280 = stablehlo.add %275, %279 : tensor<2x17x1xf32>
    %281 = stablehlo.rsqrt %280 : tensor<2x17x1xf32>
    %282 = stablehlo.reshape %arg41 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %283 = stablehlo.broadcast_in_dim %281, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %284 = stablehlo.broadcast_in_dim %282, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %285 = stablehlo.multiply %283, %284 : tensor<2x17x64xf32>
    %286 = stablehlo.multiply %278, %285 : tensor<2x17x64xf32>
    %287 = stablehlo.reshape %arg40 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %288 = stablehlo.broadcast_in_dim %287, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %289 = stablehlo.add %286, %288 : tensor<2x17x64xf32>
    %290 = stablehlo.convert %289 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %291 = stablehlo.convert %arg49 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %292 = stablehlo.convert %arg48 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %293 = stablehlo.dot_general %290, %291, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %294 = stablehlo.reshape %292 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %295 = stablehlo.broadcast_in_dim %294, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %296 = stablehlo.add %293, %295 : tensor<2x17x4x16xbf16>
    %297 = stablehlo.convert %arg45 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %298 = stablehlo.convert %arg44 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %299 = stablehlo.dot_general %290, %297, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %300 = stablehlo.reshape %298 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %301 = stablehlo.broadcast_in_dim %300, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %302 = stablehlo.add %299, %301 : tensor<2x17x4x16xbf16>
    %303 = stablehlo.convert %arg51 : (tensor<64x4x16xf32>) -> tensor<64x4x16xbf16>
    %304 = stablehlo.convert %arg50 : (tensor<4x16xf32>) -> tensor<4x16xbf16>
    %305 = stablehlo.dot_general %290, %303, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %306 = stablehlo.reshape %304 : (tensor<4x16xbf16>) -> tensor<1x1x4x16xbf16>
    %307 = stablehlo.broadcast_in_dim %306, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xbf16>) -> tensor<2x17x4x16xbf16>
    %308 = stablehlo.add %305, %307 : tensor<2x17x4x16xbf16>
    %cst_41 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %309 = stablehlo.sqrt %cst_41 : tensor<f32>
    %310 = stablehlo.convert %309 : (tensor<f32>) -> tensor<bf16>
    %311 = stablehlo.broadcast_in_dim %310, dims = [] : (tensor<bf16>) -> tensor<2x17x4x16xbf16>
    %312 = stablehlo.divide %296, %311 : tensor<2x17x4x16xbf16>
    %313 = stablehlo.dot_general %312, %302, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<2x17x4x16xbf16>) -> tensor<2x4x17x17xbf16>
    %cst_42 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %314 = stablehlo.reduce(%313 init: %cst_42) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x17x17xbf16>, tensor<bf16>) -> tensor<2x4x17xbf16>
    %cst_43 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %315 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<bf16>) -> tensor<2x4x17xbf16>
    %316 = stablehlo.maximum %315, %314 : tensor<2x4x17xbf16>
    %317 = stablehlo.broadcast_in_dim %316, dims = [0, 1, 2] : (tensor<2x4x17xbf16>) -> tensor<2x4x17x1xbf16>
    %318 = stablehlo.broadcast_in_dim %317, dims = [0, 1, 2, 3] : (tensor<2x4x17x1xbf16>) -> tensor<2x4x17x17xbf16>
    %319 = stablehlo.subtract %313, %318 : tensor<2x4x17x17xbf16>
    %320 = stablehlo.exponential %319 : tensor<2x4x17x17xbf16>
    %321 = stablehlo.convert %320 : (tensor<2x4x17x17xbf16>) -> tensor<2x4x17x17xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %322 = stablehlo.reduce(%321 init: %cst_44) applies stablehlo.add across dimensions = [3] : (tensor<2x4x17x17xf32>, tensor<f32>) -> tensor<2x4x17xf32>
    %323 = stablehlo.broadcast_in_dim %322, dims = [0, 1, 2] : (tensor<2x4x17xf32>) -> tensor<2x4x17x1xf32>
    %324 = stablehlo.convert %323 : (tensor<2x4x17x1xf32>) -> tensor<2x4x17x1xbf16>
    %325 = stablehlo.broadcast_in_dim %324, dims = [0, 1, 2, 3] : (tensor<2x4x17x1xbf16>) -> tensor<2x4x17x17xbf16>
    %326 = stablehlo.divide %320, %325 : tensor<2x4x17x17xbf16>
    %327 = stablehlo.dot_general %308, %326, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<2x4x17x17xbf16>) -> tensor<2x4x16x17xbf16>
    %328 = stablehlo.transpose %327, dims = [0, 3, 1, 2] : (tensor<2x4x16x17xbf16>) -> tensor<2x17x4x16xbf16>
    %329 = stablehlo.convert %arg47 : (tensor<4x16x64xf32>) -> tensor<4x16x64xbf16>
    %330 = stablehlo.convert %arg46 : (tensor<64xf32>) -> tensor<64xbf16>
    %331 = stablehlo.dot_general %328, %329, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x17x4x16xbf16>, tensor<4x16x64xbf16>) -> tensor<2x17x64xbf16>
    %332 = stablehlo.reshape %330 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %333 = stablehlo.broadcast_in_dim %332, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x17x64xbf16>
    %334 = stablehlo.add %331, %333 : tensor<2x17x64xbf16>
    %335 = stablehlo.add %261, %334 : tensor<2x17x64xbf16>
    %336 = stablehlo.convert %335 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %337 = chlo.square %336 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %338 = stablehlo.reduce(%336 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_46 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %339 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %340 = stablehlo.divide %338, %339 : tensor<2x17xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %341 = stablehlo.reduce(%337 init: %cst_47) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_48 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %342 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %343 = stablehlo.divide %341, %342 : tensor<2x17xf32>
    %344 = chlo.square %340 : tensor<2x17xf32> -> tensor<2x17xf32>
    %345 = stablehlo.subtract %343, %344 : tensor<2x17xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %346 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %347 = stablehlo.maximum %346, %345 : tensor<2x17xf32>
    %348 = stablehlo.broadcast_in_dim %340, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %349 = stablehlo.broadcast_in_dim %347, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %350 = stablehlo.convert %335 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %351 = stablehlo.broadcast_in_dim %348, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %352 = stablehlo.subtract %350, %351 : tensor<2x17x64xf32>
    %cst_50 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %353 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %354 = stablehlo.add %349, %353 : tensor<2x17x1xf32>
    %355 = stablehlo.rsqrt %354 : tensor<2x17x1xf32>
    %356 = stablehlo.reshape %arg43 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %357 = stablehlo.broadcast_in_dim %355, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %358 = stablehlo.broadcast_in_dim %356, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %359 = stablehlo.multiply %357, %358 : tensor<2x17x64xf32>
    %360 = stablehlo.multiply %352, %359 : tensor<2x17x64xf32>
    %361 = stablehlo.reshape %arg42 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %362 = stablehlo.broadcast_in_dim %361, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %363 = stablehlo.add %360, %362 : tensor<2x17x64xf32>
    %364 = stablehlo.convert %363 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %365 = stablehlo.convert %arg37 : (tensor<64x256xf32>) -> tensor<64x256xbf16>
    %366 = stablehlo.convert %arg36 : (tensor<256xf32>) -> tensor<256xbf16>
    %367 = stablehlo.dot_general %364, %365, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x64xbf16>, tensor<64x256xbf16>) -> tensor<2x17x256xbf16>
    %368 = stablehlo.reshape %366 : (tensor<256xbf16>) -> tensor<1x1x256xbf16>
    %369 = stablehlo.broadcast_in_dim %368, dims = [0, 1, 2] : (tensor<1x1x256xbf16>) -> tensor<2x17x256xbf16>
    %370 = stablehlo.add %367, %369 : tensor<2x17x256xbf16>
    %cst_51 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %371 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<bf16>) -> tensor<2x17x256xbf16>
    %372 = stablehlo.multiply %371, %370 : tensor<2x17x256xbf16>
    %373 = stablehlo.negate %370 : tensor<2x17x256xbf16>
    %cst_52 = stablehlo.constant dense<7.070310e-01> : tensor<bf16>
    %374 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<bf16>) -> tensor<2x17x256xbf16>
    %375 = stablehlo.multiply %373, %374 : tensor<2x17x256xbf16>
    %376 = chlo.erfc %375 : tensor<2x17x256xbf16> -> tensor<2x17x256xbf16>
    %377 = stablehlo.multiply %372, %376 : tensor<2x17x256xbf16>
    %378 = stablehlo.convert %arg39 : (tensor<256x64xf32>) -> tensor<256x64xbf16>
    %379 = stablehlo.convert %arg38 : (tensor<64xf32>) -> tensor<64xbf16>
    %380 = stablehlo.dot_general %377, %378, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x17x256xbf16>, tensor<256x64xbf16>) -> tensor<2x17x64xbf16>
    %381 = stablehlo.reshape %379 : (tensor<64xbf16>) -> tensor<1x1x64xbf16>
    %382 = stablehlo.broadcast_in_dim %381, dims = [0, 1, 2] : (tensor<1x1x64xbf16>) -> tensor<2x17x64xbf16>
    %383 = stablehlo.add %380, %382 : tensor<2x17x64xbf16>
    %384 = stablehlo.add %335, %383 : tensor<2x17x64xbf16>
    %385 = stablehlo.convert %384 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %386 = chlo.square %385 : tensor<2x17x64xf32> -> tensor<2x17x64xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %387 = stablehlo.reduce(%385 init: %cst_53) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_54 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %388 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %389 = stablehlo.divide %387, %388 : tensor<2x17xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %390 = stablehlo.reduce(%386 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<2x17x64xf32>, tensor<f32>) -> tensor<2x17xf32>
    %cst_56 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %391 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %392 = stablehlo.divide %390, %391 : tensor<2x17xf32>
    %393 = chlo.square %389 : tensor<2x17xf32> -> tensor<2x17xf32>
    %394 = stablehlo.subtract %392, %393 : tensor<2x17xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %395 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<2x17xf32>
    %396 = stablehlo.maximum %395, %394 : tensor<2x17xf32>
    %397 = stablehlo.broadcast_in_dim %389, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %398 = stablehlo.broadcast_in_dim %396, dims = [0, 1] : (tensor<2x17xf32>) -> tensor<2x17x1xf32>
    %399 = stablehlo.convert %384 : (tensor<2x17x64xbf16>) -> tensor<2x17x64xf32>
    %400 = stablehlo.broadcast_in_dim %397, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %401 = stablehlo.subtract %399, %400 : tensor<2x17x64xf32>
    %cst_58 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %402 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<2x17x1xf32>
    %403 = stablehlo.add %398, %402 : tensor<2x17x1xf32>
    %404 = stablehlo.rsqrt %403 : tensor<2x17x1xf32>
    %405 = stablehlo.reshape %arg53 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %406 = stablehlo.broadcast_in_dim %404, dims = [0, 1, 2] : (tensor<2x17x1xf32>) -> tensor<2x17x64xf32>
    %407 = stablehlo.broadcast_in_dim %405, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %408 = stablehlo.multiply %406, %407 : tensor<2x17x64xf32>
    %409 = stablehlo.multiply %401, %408 : tensor<2x17x64xf32>
    %410 = stablehlo.reshape %arg52 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %411 = stablehlo.broadcast_in_dim %410, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x17x64xf32>
    %412 = stablehlo.add %409, %411 : tensor<2x17x64xf32>
    %413 = stablehlo.convert %412 : (tensor<2x17x64xf32>) -> tensor<2x17x64xbf16>
    %414 = stablehlo.slice %413 [0:2, 0:1, 0:64] : (tensor<2x17x64xbf16>) -> tensor<2x1x64xbf16>
    %415 = stablehlo.reshape %414 : (tensor<2x1x64xbf16>) -> tensor<2x64xbf16>
    %416 = stablehlo.convert %arg3 : (tensor<64x10xf32>) -> tensor<64x10xbf16>
    %417 = stablehlo.convert %arg2 : (tensor<10xf32>) -> tensor<10xbf16>
    %418 = stablehlo.dot_general %415, %416, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64xbf16>, tensor<64x10xbf16>) -> tensor<2x10xbf16>
    %419 = stablehlo.reshape %417 : (tensor<10xbf16>) -> tensor<1x10xbf16>
    %420 = stablehlo.broadcast_in_dim %419, dims = [0, 1] : (tensor<1x10xbf16>) -> tensor<2x10xbf16>
    %421 = stablehlo.add %418, %420 : tensor<2x10xbf16>
    return %421 : tensor<2x10xbf16>
  }
}
