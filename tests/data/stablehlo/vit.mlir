module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64xf32> loc("variables['params']['Conv_0']['bias']"), %arg1: tensor<8x8x3x64xf32> loc("variables['params']['Conv_0']['kernel']"), %arg2: tensor<10xf32> loc("variables['params']['Dense_0']['bias']"), %arg3: tensor<64x10xf32> loc("variables['params']['Dense_0']['kernel']"), %arg4: tensor<256xf32> loc("variables['params']['Encoder_0']['Dense_0']['bias']"), %arg5: tensor<64x256xf32> loc("variables['params']['Encoder_0']['Dense_0']['kernel']"), %arg6: tensor<64xf32> loc("variables['params']['Encoder_0']['Dense_1']['bias']"), %arg7: tensor<256x64xf32> loc("variables['params']['Encoder_0']['Dense_1']['kernel']"), %arg8: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_0']['bias']"), %arg9: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_0']['scale']"), %arg10: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_1']['bias']"), %arg11: tensor<64xf32> loc("variables['params']['Encoder_0']['LayerNorm_1']['scale']"), %arg12: tensor<4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg13: tensor<64x4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg14: tensor<64xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg15: tensor<4x16x64xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg16: tensor<4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg17: tensor<64x4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg18: tensor<4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg19: tensor<64x4x16xf32> loc("variables['params']['Encoder_0']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg20: tensor<256xf32> loc("variables['params']['Encoder_1']['Dense_0']['bias']"), %arg21: tensor<64x256xf32> loc("variables['params']['Encoder_1']['Dense_0']['kernel']"), %arg22: tensor<64xf32> loc("variables['params']['Encoder_1']['Dense_1']['bias']"), %arg23: tensor<256x64xf32> loc("variables['params']['Encoder_1']['Dense_1']['kernel']"), %arg24: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_0']['bias']"), %arg25: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_0']['scale']"), %arg26: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_1']['bias']"), %arg27: tensor<64xf32> loc("variables['params']['Encoder_1']['LayerNorm_1']['scale']"), %arg28: tensor<4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg29: tensor<64x4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg30: tensor<64xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg31: tensor<4x16x64xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg32: tensor<4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg33: tensor<64x4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg34: tensor<4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg35: tensor<64x4x16xf32> loc("variables['params']['Encoder_1']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg36: tensor<256xf32> loc("variables['params']['Encoder_2']['Dense_0']['bias']"), %arg37: tensor<64x256xf32> loc("variables['params']['Encoder_2']['Dense_0']['kernel']"), %arg38: tensor<64xf32> loc("variables['params']['Encoder_2']['Dense_1']['bias']"), %arg39: tensor<256x64xf32> loc("variables['params']['Encoder_2']['Dense_1']['kernel']"), %arg40: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_0']['bias']"), %arg41: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_0']['scale']"), %arg42: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_1']['bias']"), %arg43: tensor<64xf32> loc("variables['params']['Encoder_2']['LayerNorm_1']['scale']"), %arg44: tensor<4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg45: tensor<64x4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg46: tensor<64xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg47: tensor<4x16x64xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg48: tensor<4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg49: tensor<64x4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg50: tensor<4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg51: tensor<64x4x16xf32> loc("variables['params']['Encoder_2']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg52: tensor<64xf32> loc("variables['params']['LayerNorm_0']['bias']"), %arg53: tensor<64xf32> loc("variables['params']['LayerNorm_0']['scale']"), %arg54: tensor<1x16x64xf32> loc("variables['params']['positions']"), %arg55: tensor<2x32x32x3xf32> loc("x")) -> (tensor<2x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg55, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [8, 8], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x32x32x3xf32>, tensor<8x8x3x64xf32>) -> tensor<2x4x4x64xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x4x4x64xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x4x4x64xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x4x4x64xf32>) -> tensor<2x16x64xf32>
    %5 = stablehlo.broadcast_in_dim %arg54, dims = [0, 1, 2] : (tensor<1x16x64xf32>) -> tensor<2x16x64xf32>
    %6 = stablehlo.add %4, %5 : tensor<2x16x64xf32>
    %7 = chlo.square %6 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_0 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %10 = stablehlo.divide %8, %9 : tensor<2x16xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_2 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x16xf32>
    %14 = chlo.square %10 : tensor<2x16xf32> -> tensor<2x16xf32>
    %15 = stablehlo.subtract %13, %14 : tensor<2x16xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %17 = stablehlo.maximum %16, %15 : tensor<2x16xf32>
    %18 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %19 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %20 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %21 = stablehlo.subtract %6, %20 : tensor<2x16x64xf32>
    %cst_4 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %23 = stablehlo.add %19, %22 : tensor<2x16x1xf32>
    %24 = stablehlo.rsqrt %23 : tensor<2x16x1xf32>
    %25 = stablehlo.reshape %arg9 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %26 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %27 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %28 = stablehlo.multiply %26, %27 : tensor<2x16x64xf32>
    %29 = stablehlo.multiply %21, %28 : tensor<2x16x64xf32>
    %30 = stablehlo.reshape %arg8 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %32 = stablehlo.add %29, %31 : tensor<2x16x64xf32>
    %33 = stablehlo.dot_general %32, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %34 = stablehlo.reshape %arg16 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %35 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %36 = stablehlo.add %33, %35 : tensor<2x16x4x16xf32>
    %37 = stablehlo.dot_general %32, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %38 = stablehlo.reshape %arg12 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %40 = stablehlo.add %37, %39 : tensor<2x16x4x16xf32>
    %41 = stablehlo.dot_general %32, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %42 = stablehlo.reshape %arg18 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %44 = stablehlo.add %41, %43 : tensor<2x16x4x16xf32>
    %cst_5 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %45 = stablehlo.sqrt %cst_5 : tensor<f32>
    %46 = stablehlo.convert %45 : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<f32>) -> tensor<2x16x4x16xf32>
    %48 = stablehlo.divide %36, %47 : tensor<2x16x4x16xf32>
    %49 = stablehlo.dot_general %48, %40, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<2x16x4x16xf32>) -> tensor<2x4x16x16xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %50 = stablehlo.reduce(%49 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %52 = stablehlo.maximum %51, %50 : tensor<2x4x16xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %55 = stablehlo.subtract %49, %54 : tensor<2x4x16x16xf32>
    %56 = stablehlo.exponential %55 : tensor<2x4x16x16xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %57 = stablehlo.reduce(%56 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %60 = stablehlo.divide %56, %59 : tensor<2x4x16x16xf32>
    %61 = stablehlo.dot_general %44, %60, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
    %62 = stablehlo.transpose %61, dims = [0, 3, 1, 2] : (tensor<2x4x16x16xf32>) -> tensor<2x16x4x16xf32>
    %63 = stablehlo.dot_general %62, %arg15, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<4x16x64xf32>) -> tensor<2x16x64xf32>
    %64 = stablehlo.reshape %arg14 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %66 = stablehlo.add %63, %65 : tensor<2x16x64xf32>
    %67 = stablehlo.add %6, %66 : tensor<2x16x64xf32>
    %68 = chlo.square %67 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %69 = stablehlo.reduce(%67 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_10 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %71 = stablehlo.divide %69, %70 : tensor<2x16xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%68 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_12 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %74 = stablehlo.divide %72, %73 : tensor<2x16xf32>
    %75 = chlo.square %71 : tensor<2x16xf32> -> tensor<2x16xf32>
    %76 = stablehlo.subtract %74, %75 : tensor<2x16xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %78 = stablehlo.maximum %77, %76 : tensor<2x16xf32>
    %79 = stablehlo.broadcast_in_dim %71, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %80 = stablehlo.broadcast_in_dim %78, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %81 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %82 = stablehlo.subtract %67, %81 : tensor<2x16x64xf32>
    %cst_14 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %83 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %84 = stablehlo.add %80, %83 : tensor<2x16x1xf32>
    %85 = stablehlo.rsqrt %84 : tensor<2x16x1xf32>
    %86 = stablehlo.reshape %arg11 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %87 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %88 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %89 = stablehlo.multiply %87, %88 : tensor<2x16x64xf32>
    %90 = stablehlo.multiply %82, %89 : tensor<2x16x64xf32>
    %91 = stablehlo.reshape %arg10 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %93 = stablehlo.add %90, %92 : tensor<2x16x64xf32>
    %94 = stablehlo.dot_general %93, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x256xf32>) -> tensor<2x16x256xf32>
    %95 = stablehlo.reshape %arg4 : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %96 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<2x16x256xf32>
    %97 = stablehlo.add %94, %96 : tensor<2x16x256xf32>
    %cst_15 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %98 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x16x256xf32>
    %99 = stablehlo.multiply %98, %97 : tensor<2x16x256xf32>
    %100 = stablehlo.negate %97 : tensor<2x16x256xf32>
    %cst_16 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x16x256xf32>
    %102 = stablehlo.multiply %100, %101 : tensor<2x16x256xf32>
    %103 = chlo.erfc %102 : tensor<2x16x256xf32> -> tensor<2x16x256xf32>
    %104 = stablehlo.multiply %99, %103 : tensor<2x16x256xf32>
    %105 = stablehlo.dot_general %104, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x256xf32>, tensor<256x64xf32>) -> tensor<2x16x64xf32>
    %106 = stablehlo.reshape %arg6 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %108 = stablehlo.add %105, %107 : tensor<2x16x64xf32>
    %109 = stablehlo.add %67, %108 : tensor<2x16x64xf32>
    %110 = chlo.square %109 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%109 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_18 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %113 = stablehlo.divide %111, %112 : tensor<2x16xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%110 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_20 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %116 = stablehlo.divide %114, %115 : tensor<2x16xf32>
    %117 = chlo.square %113 : tensor<2x16xf32> -> tensor<2x16xf32>
    %118 = stablehlo.subtract %116, %117 : tensor<2x16xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %120 = stablehlo.maximum %119, %118 : tensor<2x16xf32>
    %121 = stablehlo.broadcast_in_dim %113, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %122 = stablehlo.broadcast_in_dim %120, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %123 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %124 = stablehlo.subtract %109, %123 : tensor<2x16x64xf32>
    %cst_22 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %126 = stablehlo.add %122, %125 : tensor<2x16x1xf32>
    %127 = stablehlo.rsqrt %126 : tensor<2x16x1xf32>
    %128 = stablehlo.reshape %arg25 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %129 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %130 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %131 = stablehlo.multiply %129, %130 : tensor<2x16x64xf32>
    %132 = stablehlo.multiply %124, %131 : tensor<2x16x64xf32>
    %133 = stablehlo.reshape %arg24 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %135 = stablehlo.add %132, %134 : tensor<2x16x64xf32>
    %136 = stablehlo.dot_general %135, %arg33, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %137 = stablehlo.reshape %arg32 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %138 = stablehlo.broadcast_in_dim %137, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %139 = stablehlo.add %136, %138 : tensor<2x16x4x16xf32>
    %140 = stablehlo.dot_general %135, %arg29, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %141 = stablehlo.reshape %arg28 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %142 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %143 = stablehlo.add %140, %142 : tensor<2x16x4x16xf32>
    %144 = stablehlo.dot_general %135, %arg35, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %145 = stablehlo.reshape %arg34 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %146 = stablehlo.broadcast_in_dim %145, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %147 = stablehlo.add %144, %146 : tensor<2x16x4x16xf32>
    %cst_23 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %148 = stablehlo.sqrt %cst_23 : tensor<f32>
    %149 = stablehlo.convert %148 : tensor<f32>
    %150 = stablehlo.broadcast_in_dim %149, dims = [] : (tensor<f32>) -> tensor<2x16x4x16xf32>
    %151 = stablehlo.divide %139, %150 : tensor<2x16x4x16xf32>
    %152 = stablehlo.dot_general %151, %143, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<2x16x4x16xf32>) -> tensor<2x4x16x16xf32>
    %cst_24 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %153 = stablehlo.reduce(%152 init: %cst_24) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_25 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %155 = stablehlo.maximum %154, %153 : tensor<2x4x16xf32>
    %156 = stablehlo.broadcast_in_dim %155, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %157 = stablehlo.broadcast_in_dim %156, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %158 = stablehlo.subtract %152, %157 : tensor<2x4x16x16xf32>
    %159 = stablehlo.exponential %158 : tensor<2x4x16x16xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %160 = stablehlo.reduce(%159 init: %cst_26) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %162 = stablehlo.broadcast_in_dim %161, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %163 = stablehlo.divide %159, %162 : tensor<2x4x16x16xf32>
    %164 = stablehlo.dot_general %147, %163, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
    %165 = stablehlo.transpose %164, dims = [0, 3, 1, 2] : (tensor<2x4x16x16xf32>) -> tensor<2x16x4x16xf32>
    %166 = stablehlo.dot_general %165, %arg31, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<4x16x64xf32>) -> tensor<2x16x64xf32>
    %167 = stablehlo.reshape %arg30 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %168 = stablehlo.broadcast_in_dim %167, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %169 = stablehlo.add %166, %168 : tensor<2x16x64xf32>
    %170 = stablehlo.add %109, %169 : tensor<2x16x64xf32>
    %171 = chlo.square %170 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %172 = stablehlo.reduce(%170 init: %cst_27) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_28 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %173 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %174 = stablehlo.divide %172, %173 : tensor<2x16xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %175 = stablehlo.reduce(%171 init: %cst_29) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_30 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %176 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %177 = stablehlo.divide %175, %176 : tensor<2x16xf32>
    %178 = chlo.square %174 : tensor<2x16xf32> -> tensor<2x16xf32>
    %179 = stablehlo.subtract %177, %178 : tensor<2x16xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %181 = stablehlo.maximum %180, %179 : tensor<2x16xf32>
    %182 = stablehlo.broadcast_in_dim %174, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %183 = stablehlo.broadcast_in_dim %181, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %184 = stablehlo.broadcast_in_dim %182, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %185 = stablehlo.subtract %170, %184 : tensor<2x16x64xf32>
    %cst_32 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %187 = stablehlo.add %183, %186 : tensor<2x16x1xf32>
    %188 = stablehlo.rsqrt %187 : tensor<2x16x1xf32>
    %189 = stablehlo.reshape %arg27 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %190 = stablehlo.broadcast_in_dim %188, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %191 = stablehlo.broadcast_in_dim %189, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %192 = stablehlo.multiply %190, %191 : tensor<2x16x64xf32>
    %193 = stablehlo.multiply %185, %192 : tensor<2x16x64xf32>
    %194 = stablehlo.reshape %arg26 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %195 = stablehlo.broadcast_in_dim %194, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %196 = stablehlo.add %193, %195 : tensor<2x16x64xf32>
    %197 = stablehlo.dot_general %196, %arg21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x256xf32>) -> tensor<2x16x256xf32>
    %198 = stablehlo.reshape %arg20 : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %199 = stablehlo.broadcast_in_dim %198, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<2x16x256xf32>
    %200 = stablehlo.add %197, %199 : tensor<2x16x256xf32>
    %cst_33 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<2x16x256xf32>
    %202 = stablehlo.multiply %201, %200 : tensor<2x16x256xf32>
    %203 = stablehlo.negate %200 : tensor<2x16x256xf32>
    %cst_34 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %204 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x16x256xf32>
    %205 = stablehlo.multiply %203, %204 : tensor<2x16x256xf32>
    %206 = chlo.erfc %205 : tensor<2x16x256xf32> -> tensor<2x16x256xf32>
    %207 = stablehlo.multiply %202, %206 : tensor<2x16x256xf32>
    %208 = stablehlo.dot_general %207, %arg23, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x256xf32>, tensor<256x64xf32>) -> tensor<2x16x64xf32>
    %209 = stablehlo.reshape %arg22 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %210 = stablehlo.broadcast_in_dim %209, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %211 = stablehlo.add %208, %210 : tensor<2x16x64xf32>
    %212 = stablehlo.add %170, %211 : tensor<2x16x64xf32>
    %213 = chlo.square %212 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %214 = stablehlo.reduce(%212 init: %cst_35) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_36 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %215 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %216 = stablehlo.divide %214, %215 : tensor<2x16xf32>
    %cst_37 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %217 = stablehlo.reduce(%213 init: %cst_37) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_38 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %219 = stablehlo.divide %217, %218 : tensor<2x16xf32>
    %220 = chlo.square %216 : tensor<2x16xf32> -> tensor<2x16xf32>
    %221 = stablehlo.subtract %219, %220 : tensor<2x16xf32>
    %cst_39 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %222 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %223 = stablehlo.maximum %222, %221 : tensor<2x16xf32>
    %224 = stablehlo.broadcast_in_dim %216, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %225 = stablehlo.broadcast_in_dim %223, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %226 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %227 = stablehlo.subtract %212, %226 : tensor<2x16x64xf32>
    %cst_40 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %228 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %229 = stablehlo.add %225, %228 : tensor<2x16x1xf32>
    %230 = stablehlo.rsqrt %229 : tensor<2x16x1xf32>
    %231 = stablehlo.reshape %arg41 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %232 = stablehlo.broadcast_in_dim %230, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %233 = stablehlo.broadcast_in_dim %231, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %234 = stablehlo.multiply %232, %233 : tensor<2x16x64xf32>
    %235 = stablehlo.multiply %227, %234 : tensor<2x16x64xf32>
    %236 = stablehlo.reshape %arg40 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %237 = stablehlo.broadcast_in_dim %236, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %238 = stablehlo.add %235, %237 : tensor<2x16x64xf32>
    %239 = stablehlo.dot_general %238, %arg49, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %240 = stablehlo.reshape %arg48 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %241 = stablehlo.broadcast_in_dim %240, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %242 = stablehlo.add %239, %241 : tensor<2x16x4x16xf32>
    %243 = stablehlo.dot_general %238, %arg45, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %244 = stablehlo.reshape %arg44 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %245 = stablehlo.broadcast_in_dim %244, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %246 = stablehlo.add %243, %245 : tensor<2x16x4x16xf32>
    %247 = stablehlo.dot_general %238, %arg51, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x4x16xf32>) -> tensor<2x16x4x16xf32>
    %248 = stablehlo.reshape %arg50 : (tensor<4x16xf32>) -> tensor<1x1x4x16xf32>
    %249 = stablehlo.broadcast_in_dim %248, dims = [0, 1, 2, 3] : (tensor<1x1x4x16xf32>) -> tensor<2x16x4x16xf32>
    %250 = stablehlo.add %247, %249 : tensor<2x16x4x16xf32>
    %cst_41 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %251 = stablehlo.sqrt %cst_41 : tensor<f32>
    %252 = stablehlo.convert %251 : tensor<f32>
    %253 = stablehlo.broadcast_in_dim %252, dims = [] : (tensor<f32>) -> tensor<2x16x4x16xf32>
    %254 = stablehlo.divide %242, %253 : tensor<2x16x4x16xf32>
    %255 = stablehlo.dot_general %254, %246, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<2x16x4x16xf32>) -> tensor<2x4x16x16xf32>
    %cst_42 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %256 = stablehlo.reduce(%255 init: %cst_42) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_43 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %257 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %258 = stablehlo.maximum %257, %256 : tensor<2x4x16xf32>
    %259 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %260 = stablehlo.broadcast_in_dim %259, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %261 = stablehlo.subtract %255, %260 : tensor<2x4x16x16xf32>
    %262 = stablehlo.exponential %261 : tensor<2x4x16x16xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %263 = stablehlo.reduce(%262 init: %cst_44) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %264 = stablehlo.broadcast_in_dim %263, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %265 = stablehlo.broadcast_in_dim %264, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %266 = stablehlo.divide %262, %265 : tensor<2x4x16x16xf32>
    %267 = stablehlo.dot_general %250, %266, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
    %268 = stablehlo.transpose %267, dims = [0, 3, 1, 2] : (tensor<2x4x16x16xf32>) -> tensor<2x16x4x16xf32>
    %269 = stablehlo.dot_general %268, %arg47, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x16xf32>, tensor<4x16x64xf32>) -> tensor<2x16x64xf32>
    %270 = stablehlo.reshape %arg46 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %271 = stablehlo.broadcast_in_dim %270, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %272 = stablehlo.add %269, %271 : tensor<2x16x64xf32>
    %273 = stablehlo.add %212, %272 : tensor<2x16x64xf32>
    %274 = chlo.square %273 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %275 = stablehlo.reduce(%273 init: %cst_45) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_46 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %276 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %277 = stablehlo.divide %275, %276 : tensor<2x16xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %278 = stablehlo.reduce(%274 init: %cst_47) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_48 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %280 = stablehlo.divide %278, %279 : tensor<2x16xf32>
    %281 = chlo.square %277 : tensor<2x16xf32> -> tensor<2x16xf32>
    %282 = stablehlo.subtract %280, %281 : tensor<2x16xf32>
    %cst_49 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %283 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %284 = stablehlo.maximum %283, %282 : tensor<2x16xf32>
    %285 = stablehlo.broadcast_in_dim %277, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %286 = stablehlo.broadcast_in_dim %284, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %287 = stablehlo.broadcast_in_dim %285, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %288 = stablehlo.subtract %273, %287 : tensor<2x16x64xf32>
    %cst_50 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %289 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %290 = stablehlo.add %286, %289 : tensor<2x16x1xf32>
    %291 = stablehlo.rsqrt %290 : tensor<2x16x1xf32>
    %292 = stablehlo.reshape %arg43 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %293 = stablehlo.broadcast_in_dim %291, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %294 = stablehlo.broadcast_in_dim %292, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %295 = stablehlo.multiply %293, %294 : tensor<2x16x64xf32>
    %296 = stablehlo.multiply %288, %295 : tensor<2x16x64xf32>
    %297 = stablehlo.reshape %arg42 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %298 = stablehlo.broadcast_in_dim %297, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %299 = stablehlo.add %296, %298 : tensor<2x16x64xf32>
    %300 = stablehlo.dot_general %299, %arg37, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x64xf32>, tensor<64x256xf32>) -> tensor<2x16x256xf32>
    %301 = stablehlo.reshape %arg36 : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %302 = stablehlo.broadcast_in_dim %301, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<2x16x256xf32>
    %303 = stablehlo.add %300, %302 : tensor<2x16x256xf32>
    %cst_51 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %304 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x16x256xf32>
    %305 = stablehlo.multiply %304, %303 : tensor<2x16x256xf32>
    %306 = stablehlo.negate %303 : tensor<2x16x256xf32>
    %cst_52 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %307 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x16x256xf32>
    %308 = stablehlo.multiply %306, %307 : tensor<2x16x256xf32>
    %309 = chlo.erfc %308 : tensor<2x16x256xf32> -> tensor<2x16x256xf32>
    %310 = stablehlo.multiply %305, %309 : tensor<2x16x256xf32>
    %311 = stablehlo.dot_general %310, %arg39, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x256xf32>, tensor<256x64xf32>) -> tensor<2x16x64xf32>
    %312 = stablehlo.reshape %arg38 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %313 = stablehlo.broadcast_in_dim %312, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %314 = stablehlo.add %311, %313 : tensor<2x16x64xf32>
    %315 = stablehlo.add %273, %314 : tensor<2x16x64xf32>
    %316 = chlo.square %315 : tensor<2x16x64xf32> -> tensor<2x16x64xf32>
    %cst_53 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %317 = stablehlo.reduce(%315 init: %cst_53) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_54 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %318 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %319 = stablehlo.divide %317, %318 : tensor<2x16xf32>
    %cst_55 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %320 = stablehlo.reduce(%316 init: %cst_55) applies stablehlo.add across dimensions = [2] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_56 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %322 = stablehlo.divide %320, %321 : tensor<2x16xf32>
    %323 = chlo.square %319 : tensor<2x16xf32> -> tensor<2x16xf32>
    %324 = stablehlo.subtract %322, %323 : tensor<2x16xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %325 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %326 = stablehlo.maximum %325, %324 : tensor<2x16xf32>
    %327 = stablehlo.broadcast_in_dim %319, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %328 = stablehlo.broadcast_in_dim %326, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %329 = stablehlo.broadcast_in_dim %327, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %330 = stablehlo.subtract %315, %329 : tensor<2x16x64xf32>
    %cst_58 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %331 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %332 = stablehlo.add %328, %331 : tensor<2x16x1xf32>
    %333 = stablehlo.rsqrt %332 : tensor<2x16x1xf32>
    %334 = stablehlo.reshape %arg53 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %335 = stablehlo.broadcast_in_dim %333, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x64xf32>
    %336 = stablehlo.broadcast_in_dim %334, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %337 = stablehlo.multiply %335, %336 : tensor<2x16x64xf32>
    %338 = stablehlo.multiply %330, %337 : tensor<2x16x64xf32>
    %339 = stablehlo.reshape %arg52 : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %340 = stablehlo.broadcast_in_dim %339, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x16x64xf32>
    %341 = stablehlo.add %338, %340 : tensor<2x16x64xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %342 = stablehlo.reduce(%341 init: %cst_59) applies stablehlo.add across dimensions = [1] : (tensor<2x16x64xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_60 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %343 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %344 = stablehlo.divide %342, %343 : tensor<2x64xf32>
    %345 = stablehlo.dot_general %344, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64xf32>, tensor<64x10xf32>) -> tensor<2x10xf32>
    %346 = stablehlo.reshape %arg2 : (tensor<10xf32>) -> tensor<1x10xf32>
    %347 = stablehlo.broadcast_in_dim %346, dims = [0, 1] : (tensor<1x10xf32>) -> tensor<2x10xf32>
    %348 = stablehlo.add %345, %347 : tensor<2x10xf32>
    return %348 : tensor<2x10xf32>
  }
}
