module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x1x32x32xf32> loc("variables['params']['Bottleneck_0']['Conv_0']['kernel']"), %arg1: tensor<3x3x32x32xf32> loc("variables['params']['Bottleneck_0']['Conv_1']['kernel']"), %arg2: tensor<1x1x32x128xf32> loc("variables['params']['Bottleneck_0']['Conv_2']['kernel']"), %arg3: tensor<1x1x32x128xf32> loc("variables['params']['Bottleneck_0']['Conv_3']['kernel']"), %arg4: tensor<32xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_0']['bias']"), %arg5: tensor<32xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_0']['scale']"), %arg6: tensor<32xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_1']['bias']"), %arg7: tensor<32xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_1']['scale']"), %arg8: tensor<128xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_2']['bias']"), %arg9: tensor<128xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_2']['scale']"), %arg10: tensor<128xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_3']['bias']"), %arg11: tensor<128xf32> loc("variables['params']['Bottleneck_0']['GroupNorm_3']['scale']"), %arg12: tensor<1x1x128x64xf32> loc("variables['params']['Bottleneck_1']['Conv_0']['kernel']"), %arg13: tensor<3x3x64x64xf32> loc("variables['params']['Bottleneck_1']['Conv_1']['kernel']"), %arg14: tensor<1x1x64x256xf32> loc("variables['params']['Bottleneck_1']['Conv_2']['kernel']"), %arg15: tensor<1x1x128x256xf32> loc("variables['params']['Bottleneck_1']['Conv_3']['kernel']"), %arg16: tensor<64xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_0']['bias']"), %arg17: tensor<64xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_0']['scale']"), %arg18: tensor<64xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_1']['bias']"), %arg19: tensor<64xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_1']['scale']"), %arg20: tensor<256xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_2']['bias']"), %arg21: tensor<256xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_2']['scale']"), %arg22: tensor<256xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_3']['bias']"), %arg23: tensor<256xf32> loc("variables['params']['Bottleneck_1']['GroupNorm_3']['scale']"), %arg24: tensor<7x7x3x32xf32> loc("variables['params']['Conv_0']['kernel']"), %arg25: tensor<10xf32> loc("variables['params']['Dense_0']['bias']"), %arg26: tensor<256x10xf32> loc("variables['params']['Dense_0']['kernel']"), %arg27: tensor<32xf32> loc("variables['params']['GroupNorm_0']['bias']"), %arg28: tensor<32xf32> loc("variables['params']['GroupNorm_0']['scale']"), %arg29: tensor<2x64x64x3xf32> loc("x")) -> (tensor<2x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg29, %arg24) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[3, 3], [3, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x64x64x3xf32>, tensor<7x7x3x32xf32>) -> tensor<2x32x32x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x32x32x32xf32>) -> tensor<2x32x32x8x4xf32>
    %2 = chlo.square %1 : tensor<2x32x32x8x4xf32> -> tensor<2x32x32x8x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x32x32x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_0 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %5 = stablehlo.divide %3, %4 : tensor<2x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%2 init: %cst_1) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x32x32x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_2 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %8 = stablehlo.divide %6, %7 : tensor<2x8xf32>
    %9 = chlo.square %5 : tensor<2x8xf32> -> tensor<2x8xf32>
    %10 = stablehlo.subtract %8, %9 : tensor<2x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %12 = stablehlo.maximum %11, %10 : tensor<2x8xf32>
    %13 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x4xf32>
    %14 = stablehlo.reshape %13 : (tensor<2x8x4xf32>) -> tensor<2x32xf32>
    %15 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x4xf32>
    %16 = stablehlo.reshape %15 : (tensor<2x8x4xf32>) -> tensor<2x32xf32>
    %17 = stablehlo.broadcast_in_dim %14, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %18 = stablehlo.broadcast_in_dim %16, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %19 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2, 3] : (tensor<2x1x1x32xf32>) -> tensor<2x32x32x32xf32>
    %20 = stablehlo.subtract %0, %19 : tensor<2x32x32x32xf32>
    %cst_4 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x1x1x32xf32>
    %22 = stablehlo.add %18, %21 : tensor<2x1x1x32xf32>
    %23 = stablehlo.rsqrt %22 : tensor<2x1x1x32xf32>
    %24 = stablehlo.reshape %arg28 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<2x1x1x32xf32>
    %26 = stablehlo.multiply %23, %25 : tensor<2x1x1x32xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<2x1x1x32xf32>) -> tensor<2x32x32x32xf32>
    %28 = stablehlo.multiply %20, %27 : tensor<2x32x32x32xf32>
    %29 = stablehlo.reshape %arg27 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<2x32x32x32xf32>
    %31 = stablehlo.add %28, %30 : tensor<2x32x32x32xf32>
    %32 = call @relu(%31) : (tensor<2x32x32x32xf32>) -> tensor<2x32x32x32xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<f32>
    %34 = "stablehlo.reduce_window"(%32, %33) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg30: tensor<f32>, %arg31: tensor<f32>):
      %306 = stablehlo.maximum %arg30, %arg31 : tensor<f32>
      stablehlo.return %306 : tensor<f32>
    }) : (tensor<2x32x32x32xf32>, tensor<f32>) -> tensor<2x16x16x32xf32>
    %35 = stablehlo.convolution(%34, %arg0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x32xf32>, tensor<1x1x32x32xf32>) -> tensor<2x16x16x32xf32>
    %36 = stablehlo.reshape %35 : (tensor<2x16x16x32xf32>) -> tensor<2x16x16x8x4xf32>
    %37 = chlo.square %36 : tensor<2x16x16x8x4xf32> -> tensor<2x16x16x8x4xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %38 = stablehlo.reduce(%36 init: %cst_6) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_7 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %40 = stablehlo.divide %38, %39 : tensor<2x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %41 = stablehlo.reduce(%37 init: %cst_8) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_9 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %43 = stablehlo.divide %41, %42 : tensor<2x8xf32>
    %44 = chlo.square %40 : tensor<2x8xf32> -> tensor<2x8xf32>
    %45 = stablehlo.subtract %43, %44 : tensor<2x8xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %47 = stablehlo.maximum %46, %45 : tensor<2x8xf32>
    %48 = stablehlo.broadcast_in_dim %40, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x4xf32>
    %49 = stablehlo.reshape %48 : (tensor<2x8x4xf32>) -> tensor<2x32xf32>
    %50 = stablehlo.broadcast_in_dim %47, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x4xf32>
    %51 = stablehlo.reshape %50 : (tensor<2x8x4xf32>) -> tensor<2x32xf32>
    %52 = stablehlo.broadcast_in_dim %49, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %53 = stablehlo.broadcast_in_dim %51, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %54 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<2x1x1x32xf32>) -> tensor<2x16x16x32xf32>
    %55 = stablehlo.subtract %35, %54 : tensor<2x16x16x32xf32>
    %cst_11 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x1x1x32xf32>
    %57 = stablehlo.add %53, %56 : tensor<2x1x1x32xf32>
    %58 = stablehlo.rsqrt %57 : tensor<2x1x1x32xf32>
    %59 = stablehlo.reshape %arg5 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<2x1x1x32xf32>
    %61 = stablehlo.multiply %58, %60 : tensor<2x1x1x32xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<2x1x1x32xf32>) -> tensor<2x16x16x32xf32>
    %63 = stablehlo.multiply %55, %62 : tensor<2x16x16x32xf32>
    %64 = stablehlo.reshape %arg4 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<2x16x16x32xf32>
    %66 = stablehlo.add %63, %65 : tensor<2x16x16x32xf32>
    %67 = call @relu_0(%66) : (tensor<2x16x16x32xf32>) -> tensor<2x16x16x32xf32>
    %68 = stablehlo.convolution(%67, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x32xf32>, tensor<3x3x32x32xf32>) -> tensor<2x16x16x32xf32>
    %69 = stablehlo.reshape %68 : (tensor<2x16x16x32xf32>) -> tensor<2x16x16x8x4xf32>
    %70 = chlo.square %69 : tensor<2x16x16x8x4xf32> -> tensor<2x16x16x8x4xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%69 init: %cst_12) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_13 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %73 = stablehlo.divide %71, %72 : tensor<2x8xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %74 = stablehlo.reduce(%70 init: %cst_14) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x4xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_15 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %76 = stablehlo.divide %74, %75 : tensor<2x8xf32>
    %77 = chlo.square %73 : tensor<2x8xf32> -> tensor<2x8xf32>
    %78 = stablehlo.subtract %76, %77 : tensor<2x8xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %80 = stablehlo.maximum %79, %78 : tensor<2x8xf32>
    %81 = stablehlo.broadcast_in_dim %73, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x4xf32>
    %82 = stablehlo.reshape %81 : (tensor<2x8x4xf32>) -> tensor<2x32xf32>
    %83 = stablehlo.broadcast_in_dim %80, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x4xf32>
    %84 = stablehlo.reshape %83 : (tensor<2x8x4xf32>) -> tensor<2x32xf32>
    %85 = stablehlo.broadcast_in_dim %82, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %86 = stablehlo.broadcast_in_dim %84, dims = [0, 3] : (tensor<2x32xf32>) -> tensor<2x1x1x32xf32>
    %87 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2, 3] : (tensor<2x1x1x32xf32>) -> tensor<2x16x16x32xf32>
    %88 = stablehlo.subtract %68, %87 : tensor<2x16x16x32xf32>
    %cst_17 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x1x1x32xf32>
    %90 = stablehlo.add %86, %89 : tensor<2x1x1x32xf32>
    %91 = stablehlo.rsqrt %90 : tensor<2x1x1x32xf32>
    %92 = stablehlo.reshape %arg7 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<2x1x1x32xf32>
    %94 = stablehlo.multiply %91, %93 : tensor<2x1x1x32xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2, 3] : (tensor<2x1x1x32xf32>) -> tensor<2x16x16x32xf32>
    %96 = stablehlo.multiply %88, %95 : tensor<2x16x16x32xf32>
    %97 = stablehlo.reshape %arg6 : (tensor<32xf32>) -> tensor<1x1x1x32xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<2x16x16x32xf32>
    %99 = stablehlo.add %96, %98 : tensor<2x16x16x32xf32>
    %100 = call @relu_0(%99) : (tensor<2x16x16x32xf32>) -> tensor<2x16x16x32xf32>
    %101 = stablehlo.convolution(%100, %arg2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x32xf32>, tensor<1x1x32x128xf32>) -> tensor<2x16x16x128xf32>
    %102 = stablehlo.reshape %101 : (tensor<2x16x16x128xf32>) -> tensor<2x16x16x8x16xf32>
    %103 = chlo.square %102 : tensor<2x16x16x8x16xf32> -> tensor<2x16x16x8x16xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %104 = stablehlo.reduce(%102 init: %cst_18) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x16xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_19 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %105 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %106 = stablehlo.divide %104, %105 : tensor<2x8xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %107 = stablehlo.reduce(%103 init: %cst_20) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x16xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_21 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %108 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %109 = stablehlo.divide %107, %108 : tensor<2x8xf32>
    %110 = chlo.square %106 : tensor<2x8xf32> -> tensor<2x8xf32>
    %111 = stablehlo.subtract %109, %110 : tensor<2x8xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %113 = stablehlo.maximum %112, %111 : tensor<2x8xf32>
    %114 = stablehlo.broadcast_in_dim %106, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x16xf32>
    %115 = stablehlo.reshape %114 : (tensor<2x8x16xf32>) -> tensor<2x128xf32>
    %116 = stablehlo.broadcast_in_dim %113, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x16xf32>
    %117 = stablehlo.reshape %116 : (tensor<2x8x16xf32>) -> tensor<2x128xf32>
    %118 = stablehlo.broadcast_in_dim %115, dims = [0, 3] : (tensor<2x128xf32>) -> tensor<2x1x1x128xf32>
    %119 = stablehlo.broadcast_in_dim %117, dims = [0, 3] : (tensor<2x128xf32>) -> tensor<2x1x1x128xf32>
    %120 = stablehlo.broadcast_in_dim %118, dims = [0, 1, 2, 3] : (tensor<2x1x1x128xf32>) -> tensor<2x16x16x128xf32>
    %121 = stablehlo.subtract %101, %120 : tensor<2x16x16x128xf32>
    %cst_23 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %122 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x1x1x128xf32>
    %123 = stablehlo.add %119, %122 : tensor<2x1x1x128xf32>
    %124 = stablehlo.rsqrt %123 : tensor<2x1x1x128xf32>
    %125 = stablehlo.reshape %arg9 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x1x1x128xf32>
    %127 = stablehlo.multiply %124, %126 : tensor<2x1x1x128xf32>
    %128 = stablehlo.broadcast_in_dim %127, dims = [0, 1, 2, 3] : (tensor<2x1x1x128xf32>) -> tensor<2x16x16x128xf32>
    %129 = stablehlo.multiply %121, %128 : tensor<2x16x16x128xf32>
    %130 = stablehlo.reshape %arg8 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x16x16x128xf32>
    %132 = stablehlo.add %129, %131 : tensor<2x16x16x128xf32>
    %133 = stablehlo.convolution(%34, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x32xf32>, tensor<1x1x32x128xf32>) -> tensor<2x16x16x128xf32>
    %134 = stablehlo.reshape %133 : (tensor<2x16x16x128xf32>) -> tensor<2x16x16x8x16xf32>
    %135 = chlo.square %134 : tensor<2x16x16x8x16xf32> -> tensor<2x16x16x8x16xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %136 = stablehlo.reduce(%134 init: %cst_24) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x16xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_25 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %137 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %138 = stablehlo.divide %136, %137 : tensor<2x8xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %139 = stablehlo.reduce(%135 init: %cst_26) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x16xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_27 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %141 = stablehlo.divide %139, %140 : tensor<2x8xf32>
    %142 = chlo.square %138 : tensor<2x8xf32> -> tensor<2x8xf32>
    %143 = stablehlo.subtract %141, %142 : tensor<2x8xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %145 = stablehlo.maximum %144, %143 : tensor<2x8xf32>
    %146 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x16xf32>
    %147 = stablehlo.reshape %146 : (tensor<2x8x16xf32>) -> tensor<2x128xf32>
    %148 = stablehlo.broadcast_in_dim %145, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x16xf32>
    %149 = stablehlo.reshape %148 : (tensor<2x8x16xf32>) -> tensor<2x128xf32>
    %150 = stablehlo.broadcast_in_dim %147, dims = [0, 3] : (tensor<2x128xf32>) -> tensor<2x1x1x128xf32>
    %151 = stablehlo.broadcast_in_dim %149, dims = [0, 3] : (tensor<2x128xf32>) -> tensor<2x1x1x128xf32>
    %152 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2, 3] : (tensor<2x1x1x128xf32>) -> tensor<2x16x16x128xf32>
    %153 = stablehlo.subtract %133, %152 : tensor<2x16x16x128xf32>
    %cst_29 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<2x1x1x128xf32>
    %155 = stablehlo.add %151, %154 : tensor<2x1x1x128xf32>
    %156 = stablehlo.rsqrt %155 : tensor<2x1x1x128xf32>
    %157 = stablehlo.reshape %arg11 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %158 = stablehlo.broadcast_in_dim %157, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x1x1x128xf32>
    %159 = stablehlo.multiply %156, %158 : tensor<2x1x1x128xf32>
    %160 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2, 3] : (tensor<2x1x1x128xf32>) -> tensor<2x16x16x128xf32>
    %161 = stablehlo.multiply %153, %160 : tensor<2x16x16x128xf32>
    %162 = stablehlo.reshape %arg10 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x16x16x128xf32>
    %164 = stablehlo.add %161, %163 : tensor<2x16x16x128xf32>
    %165 = stablehlo.add %164, %132 : tensor<2x16x16x128xf32>
    %166 = call @relu_1(%165) : (tensor<2x16x16x128xf32>) -> tensor<2x16x16x128xf32>
    %167 = stablehlo.convolution(%166, %arg12) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x128xf32>, tensor<1x1x128x64xf32>) -> tensor<2x16x16x64xf32>
    %168 = stablehlo.reshape %167 : (tensor<2x16x16x64xf32>) -> tensor<2x16x16x8x8xf32>
    %169 = chlo.square %168 : tensor<2x16x16x8x8xf32> -> tensor<2x16x16x8x8xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %170 = stablehlo.reduce(%168 init: %cst_30) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_31 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %171 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %172 = stablehlo.divide %170, %171 : tensor<2x8xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %173 = stablehlo.reduce(%169 init: %cst_32) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x16x16x8x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_33 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %175 = stablehlo.divide %173, %174 : tensor<2x8xf32>
    %176 = chlo.square %172 : tensor<2x8xf32> -> tensor<2x8xf32>
    %177 = stablehlo.subtract %175, %176 : tensor<2x8xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %178 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %179 = stablehlo.maximum %178, %177 : tensor<2x8xf32>
    %180 = stablehlo.broadcast_in_dim %172, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x8xf32>
    %181 = stablehlo.reshape %180 : (tensor<2x8x8xf32>) -> tensor<2x64xf32>
    %182 = stablehlo.broadcast_in_dim %179, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x8xf32>
    %183 = stablehlo.reshape %182 : (tensor<2x8x8xf32>) -> tensor<2x64xf32>
    %184 = stablehlo.broadcast_in_dim %181, dims = [0, 3] : (tensor<2x64xf32>) -> tensor<2x1x1x64xf32>
    %185 = stablehlo.broadcast_in_dim %183, dims = [0, 3] : (tensor<2x64xf32>) -> tensor<2x1x1x64xf32>
    %186 = stablehlo.broadcast_in_dim %184, dims = [0, 1, 2, 3] : (tensor<2x1x1x64xf32>) -> tensor<2x16x16x64xf32>
    %187 = stablehlo.subtract %167, %186 : tensor<2x16x16x64xf32>
    %cst_35 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %188 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<2x1x1x64xf32>
    %189 = stablehlo.add %185, %188 : tensor<2x1x1x64xf32>
    %190 = stablehlo.rsqrt %189 : tensor<2x1x1x64xf32>
    %191 = stablehlo.reshape %arg17 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %192 = stablehlo.broadcast_in_dim %191, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x1x1x64xf32>
    %193 = stablehlo.multiply %190, %192 : tensor<2x1x1x64xf32>
    %194 = stablehlo.broadcast_in_dim %193, dims = [0, 1, 2, 3] : (tensor<2x1x1x64xf32>) -> tensor<2x16x16x64xf32>
    %195 = stablehlo.multiply %187, %194 : tensor<2x16x16x64xf32>
    %196 = stablehlo.reshape %arg16 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %197 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x16x16x64xf32>
    %198 = stablehlo.add %195, %197 : tensor<2x16x16x64xf32>
    %199 = call @relu_2(%198) : (tensor<2x16x16x64xf32>) -> tensor<2x16x16x64xf32>
    %200 = stablehlo.convolution(%199, %arg13) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x64xf32>, tensor<3x3x64x64xf32>) -> tensor<2x8x8x64xf32>
    %201 = stablehlo.reshape %200 : (tensor<2x8x8x64xf32>) -> tensor<2x8x8x8x8xf32>
    %202 = chlo.square %201 : tensor<2x8x8x8x8xf32> -> tensor<2x8x8x8x8xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %203 = stablehlo.reduce(%201 init: %cst_36) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x8x8x8x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_37 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %204 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %205 = stablehlo.divide %203, %204 : tensor<2x8xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %206 = stablehlo.reduce(%202 init: %cst_38) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x8x8x8x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_39 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %208 = stablehlo.divide %206, %207 : tensor<2x8xf32>
    %209 = chlo.square %205 : tensor<2x8xf32> -> tensor<2x8xf32>
    %210 = stablehlo.subtract %208, %209 : tensor<2x8xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %211 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %212 = stablehlo.maximum %211, %210 : tensor<2x8xf32>
    %213 = stablehlo.broadcast_in_dim %205, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x8xf32>
    %214 = stablehlo.reshape %213 : (tensor<2x8x8xf32>) -> tensor<2x64xf32>
    %215 = stablehlo.broadcast_in_dim %212, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x8xf32>
    %216 = stablehlo.reshape %215 : (tensor<2x8x8xf32>) -> tensor<2x64xf32>
    %217 = stablehlo.broadcast_in_dim %214, dims = [0, 3] : (tensor<2x64xf32>) -> tensor<2x1x1x64xf32>
    %218 = stablehlo.broadcast_in_dim %216, dims = [0, 3] : (tensor<2x64xf32>) -> tensor<2x1x1x64xf32>
    %219 = stablehlo.broadcast_in_dim %217, dims = [0, 1, 2, 3] : (tensor<2x1x1x64xf32>) -> tensor<2x8x8x64xf32>
    %220 = stablehlo.subtract %200, %219 : tensor<2x8x8x64xf32>
    %cst_41 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %221 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<2x1x1x64xf32>
    %222 = stablehlo.add %218, %221 : tensor<2x1x1x64xf32>
    %223 = stablehlo.rsqrt %222 : tensor<2x1x1x64xf32>
    %224 = stablehlo.reshape %arg19 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %225 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x1x1x64xf32>
    %226 = stablehlo.multiply %223, %225 : tensor<2x1x1x64xf32>
    %227 = stablehlo.broadcast_in_dim %226, dims = [0, 1, 2, 3] : (tensor<2x1x1x64xf32>) -> tensor<2x8x8x64xf32>
    %228 = stablehlo.multiply %220, %227 : tensor<2x8x8x64xf32>
    %229 = stablehlo.reshape %arg18 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %230 = stablehlo.broadcast_in_dim %229, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x8x8x64xf32>
    %231 = stablehlo.add %228, %230 : tensor<2x8x8x64xf32>
    %232 = call @relu_3(%231) : (tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32>
    %233 = stablehlo.convolution(%232, %arg14) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x64xf32>, tensor<1x1x64x256xf32>) -> tensor<2x8x8x256xf32>
    %234 = stablehlo.reshape %233 : (tensor<2x8x8x256xf32>) -> tensor<2x8x8x8x32xf32>
    %235 = chlo.square %234 : tensor<2x8x8x8x32xf32> -> tensor<2x8x8x8x32xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %236 = stablehlo.reduce(%234 init: %cst_42) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x8x8x8x32xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_43 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %238 = stablehlo.divide %236, %237 : tensor<2x8xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %239 = stablehlo.reduce(%235 init: %cst_44) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x8x8x8x32xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_45 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %240 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %241 = stablehlo.divide %239, %240 : tensor<2x8xf32>
    %242 = chlo.square %238 : tensor<2x8xf32> -> tensor<2x8xf32>
    %243 = stablehlo.subtract %241, %242 : tensor<2x8xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %244 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %245 = stablehlo.maximum %244, %243 : tensor<2x8xf32>
    %246 = stablehlo.broadcast_in_dim %238, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x32xf32>
    %247 = stablehlo.reshape %246 : (tensor<2x8x32xf32>) -> tensor<2x256xf32>
    %248 = stablehlo.broadcast_in_dim %245, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x32xf32>
    %249 = stablehlo.reshape %248 : (tensor<2x8x32xf32>) -> tensor<2x256xf32>
    %250 = stablehlo.broadcast_in_dim %247, dims = [0, 3] : (tensor<2x256xf32>) -> tensor<2x1x1x256xf32>
    %251 = stablehlo.broadcast_in_dim %249, dims = [0, 3] : (tensor<2x256xf32>) -> tensor<2x1x1x256xf32>
    %252 = stablehlo.broadcast_in_dim %250, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xf32>) -> tensor<2x8x8x256xf32>
    %253 = stablehlo.subtract %233, %252 : tensor<2x8x8x256xf32>
    %cst_47 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<2x1x1x256xf32>
    %255 = stablehlo.add %251, %254 : tensor<2x1x1x256xf32>
    %256 = stablehlo.rsqrt %255 : tensor<2x1x1x256xf32>
    %257 = stablehlo.reshape %arg21 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %258 = stablehlo.broadcast_in_dim %257, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x1x1x256xf32>
    %259 = stablehlo.multiply %256, %258 : tensor<2x1x1x256xf32>
    %260 = stablehlo.broadcast_in_dim %259, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xf32>) -> tensor<2x8x8x256xf32>
    %261 = stablehlo.multiply %253, %260 : tensor<2x8x8x256xf32>
    %262 = stablehlo.reshape %arg20 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %263 = stablehlo.broadcast_in_dim %262, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x8x8x256xf32>
    %264 = stablehlo.add %261, %263 : tensor<2x8x8x256xf32>
    %265 = stablehlo.convolution(%166, %arg15) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x16x16x128xf32>, tensor<1x1x128x256xf32>) -> tensor<2x8x8x256xf32>
    %266 = stablehlo.reshape %265 : (tensor<2x8x8x256xf32>) -> tensor<2x8x8x8x32xf32>
    %267 = chlo.square %266 : tensor<2x8x8x8x32xf32> -> tensor<2x8x8x8x32xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %268 = stablehlo.reduce(%266 init: %cst_48) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x8x8x8x32xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_49 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %269 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %270 = stablehlo.divide %268, %269 : tensor<2x8xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %271 = stablehlo.reduce(%267 init: %cst_50) applies stablehlo.add across dimensions = [1, 2, 4] : (tensor<2x8x8x8x32xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_51 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %272 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %273 = stablehlo.divide %271, %272 : tensor<2x8xf32>
    %274 = chlo.square %270 : tensor<2x8xf32> -> tensor<2x8xf32>
    %275 = stablehlo.subtract %273, %274 : tensor<2x8xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %276 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %277 = stablehlo.maximum %276, %275 : tensor<2x8xf32>
    %278 = stablehlo.broadcast_in_dim %270, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x32xf32>
    %279 = stablehlo.reshape %278 : (tensor<2x8x32xf32>) -> tensor<2x256xf32>
    %280 = stablehlo.broadcast_in_dim %277, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x32xf32>
    %281 = stablehlo.reshape %280 : (tensor<2x8x32xf32>) -> tensor<2x256xf32>
    %282 = stablehlo.broadcast_in_dim %279, dims = [0, 3] : (tensor<2x256xf32>) -> tensor<2x1x1x256xf32>
    %283 = stablehlo.broadcast_in_dim %281, dims = [0, 3] : (tensor<2x256xf32>) -> tensor<2x1x1x256xf32>
    %284 = stablehlo.broadcast_in_dim %282, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xf32>) -> tensor<2x8x8x256xf32>
    %285 = stablehlo.subtract %265, %284 : tensor<2x8x8x256xf32>
    %cst_53 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %286 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x1x1x256xf32>
    %287 = stablehlo.add %283, %286 : tensor<2x1x1x256xf32>
    %288 = stablehlo.rsqrt %287 : tensor<2x1x1x256xf32>
    %289 = stablehlo.reshape %arg23 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %290 = stablehlo.broadcast_in_dim %289, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x1x1x256xf32>
    %291 = stablehlo.multiply %288, %290 : tensor<2x1x1x256xf32>
    %292 = stablehlo.broadcast_in_dim %291, dims = [0, 1, 2, 3] : (tensor<2x1x1x256xf32>) -> tensor<2x8x8x256xf32>
    %293 = stablehlo.multiply %285, %292 : tensor<2x8x8x256xf32>
    %294 = stablehlo.reshape %arg22 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %295 = stablehlo.broadcast_in_dim %294, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x8x8x256xf32>
    %296 = stablehlo.add %293, %295 : tensor<2x8x8x256xf32>
    %297 = stablehlo.add %296, %264 : tensor<2x8x8x256xf32>
    %298 = call @relu_4(%297) : (tensor<2x8x8x256xf32>) -> tensor<2x8x8x256xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %299 = stablehlo.reduce(%298 init: %cst_54) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x8x8x256xf32>, tensor<f32>) -> tensor<2x256xf32>
    %cst_55 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %300 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<2x256xf32>
    %301 = stablehlo.divide %299, %300 : tensor<2x256xf32>
    %302 = stablehlo.dot_general %301, %arg26, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x256xf32>, tensor<256x10xf32>) -> tensor<2x10xf32>
    %303 = stablehlo.reshape %arg25 : (tensor<10xf32>) -> tensor<1x10xf32>
    %304 = stablehlo.broadcast_in_dim %303, dims = [0, 1] : (tensor<1x10xf32>) -> tensor<2x10xf32>
    %305 = stablehlo.add %302, %304 : tensor<2x10xf32>
    return %305 : tensor<2x10xf32>
  }
  func.func private @relu(%arg0: tensor<2x32x32x32xf32>) -> tensor<2x32x32x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x32x32x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x32x32x32xf32>
    return %1 : tensor<2x32x32x32xf32>
  }
  func.func private @relu_0(%arg0: tensor<2x16x16x32xf32>) -> tensor<2x16x16x32xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x16x32xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x16x16x32xf32>
    return %1 : tensor<2x16x16x32xf32>
  }
  func.func private @relu_1(%arg0: tensor<2x16x16x128xf32>) -> tensor<2x16x16x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x16x128xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x16x16x128xf32>
    return %1 : tensor<2x16x16x128xf32>
  }
  func.func private @relu_2(%arg0: tensor<2x16x16x64xf32>) -> tensor<2x16x16x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x16x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x16x16x64xf32>
    return %1 : tensor<2x16x16x64xf32>
  }
  func.func private @relu_3(%arg0: tensor<2x8x8x64xf32>) -> tensor<2x8x8x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x8x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x8x64xf32>
    return %1 : tensor<2x8x8x64xf32>
  }
  func.func private @relu_4(%arg0: tensor<2x8x8x256xf32>) -> tensor<2x8x8x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x8x256xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x8x256xf32>
    return %1 : tensor<2x8x8x256xf32>
  }
}
