module @jit_convolutions attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16xf32> loc("params['blocks'][0]['first']['b']"), %arg1: tensor<3x3x16x16xf32> loc("params['blocks'][0]['first']['w']"), %arg2: tensor<16xf32> loc("params['blocks'][0]['second']['b']"), %arg3: tensor<3x3x4x16xf32> loc("params['blocks'][0]['second']['w']"), %arg4: tensor<16xf32> loc("params['blocks'][1]['first']['b']"), %arg5: tensor<3x3x16x16xf32> loc("params['blocks'][1]['first']['w']"), %arg6: tensor<16xf32> loc("params['blocks'][1]['second']['b']"), %arg7: tensor<3x3x4x16xf32> loc("params['blocks'][1]['second']['w']"), %arg8: tensor<16xf32> loc("params['blocks'][2]['first']['b']"), %arg9: tensor<3x3x16x16xf32> loc("params['blocks'][2]['first']['w']"), %arg10: tensor<16xf32> loc("params['blocks'][2]['second']['b']"), %arg11: tensor<3x3x4x16xf32> loc("params['blocks'][2]['second']['w']"), %arg12: tensor<10xf32> loc("params['head']['b']"), %arg13: tensor<16x10xf32> loc("params['head']['w']"), %arg14: tensor<16xf32> loc("params['stem']['b']"), %arg15: tensor<7x7x3x16xf32> loc("params['stem']['w']"), %arg16: tensor<2x32x32x3xf32> loc("x")) -> (tensor<2x10xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg16, %arg15) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[2, 3], [2, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x32x32x3xf32>, tensor<7x7x3x16xf32>) -> tensor<2x16x16x16xf32>
    %1 = stablehlo.broadcast_in_dim %arg14, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x16x16x16xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x16x16x16xf32>
    %4 = call @relu(%3) : (tensor<2x16x16x16xf32>) -> tensor<2x16x16x16xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %6 = "stablehlo.reduce_window"(%4, %5) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg17: tensor<f32>, %arg18: tensor<f32>):
      %90 = stablehlo.maximum %arg17, %arg18 : tensor<f32>
      stablehlo.return %90 : tensor<f32>
    }) : (tensor<2x16x16x16xf32>, tensor<f32>) -> tensor<2x8x8x16xf32>
    %7 = stablehlo.convolution(%6, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<2x8x8x16xf32>
    %8 = stablehlo.broadcast_in_dim %arg0, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %10 = stablehlo.add %7, %9 : tensor<2x8x8x16xf32>
    %11 = call @silu(%10) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
    %12 = stablehlo.convolution(%11, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xf32>, tensor<3x3x4x16xf32>) -> tensor<2x8x8x16xf32>
    %13 = stablehlo.broadcast_in_dim %arg2, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %15 = stablehlo.add %12, %14 : tensor<2x8x8x16xf32>
    %16 = stablehlo.multiply %15, %15 : tensor<2x8x8x16xf32>
    %17 = stablehlo.multiply %16, %15 : tensor<2x8x8x16xf32>
    %cst_0 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %19 = stablehlo.multiply %18, %17 : tensor<2x8x8x16xf32>
    %20 = stablehlo.add %15, %19 : tensor<2x8x8x16xf32>
    %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %22 = stablehlo.multiply %21, %20 : tensor<2x8x8x16xf32>
    %23 = stablehlo.tanh %22 : tensor<2x8x8x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %25 = stablehlo.add %24, %23 : tensor<2x8x8x16xf32>
    %cst_3 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %27 = stablehlo.multiply %26, %25 : tensor<2x8x8x16xf32>
    %28 = stablehlo.multiply %15, %27 : tensor<2x8x8x16xf32>
    %29 = stablehlo.add %6, %28 : tensor<2x8x8x16xf32>
    %30 = call @relu_0(%29) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
    %31 = stablehlo.convolution(%30, %arg5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<2x8x8x16xf32>
    %32 = stablehlo.broadcast_in_dim %arg4, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %34 = stablehlo.add %31, %33 : tensor<2x8x8x16xf32>
    %35 = call @silu(%34) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
    %36 = stablehlo.convolution(%35, %arg7) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xf32>, tensor<3x3x4x16xf32>) -> tensor<2x8x8x16xf32>
    %37 = stablehlo.broadcast_in_dim %arg6, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %38 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %39 = stablehlo.add %36, %38 : tensor<2x8x8x16xf32>
    %40 = stablehlo.multiply %39, %39 : tensor<2x8x8x16xf32>
    %41 = stablehlo.multiply %40, %39 : tensor<2x8x8x16xf32>
    %cst_4 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %43 = stablehlo.multiply %42, %41 : tensor<2x8x8x16xf32>
    %44 = stablehlo.add %39, %43 : tensor<2x8x8x16xf32>
    %cst_5 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %46 = stablehlo.multiply %45, %44 : tensor<2x8x8x16xf32>
    %47 = stablehlo.tanh %46 : tensor<2x8x8x16xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %49 = stablehlo.add %48, %47 : tensor<2x8x8x16xf32>
    %cst_7 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %51 = stablehlo.multiply %50, %49 : tensor<2x8x8x16xf32>
    %52 = stablehlo.multiply %39, %51 : tensor<2x8x8x16xf32>
    %53 = stablehlo.add %30, %52 : tensor<2x8x8x16xf32>
    %54 = call @relu_0(%53) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
    %55 = stablehlo.convolution(%54, %arg9) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xf32>, tensor<3x3x16x16xf32>) -> tensor<2x8x8x16xf32>
    %56 = stablehlo.broadcast_in_dim %arg8, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %58 = stablehlo.add %55, %57 : tensor<2x8x8x16xf32>
    %59 = call @silu(%58) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
    %60 = stablehlo.convolution(%59, %arg11) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 4 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x16xf32>, tensor<3x3x4x16xf32>) -> tensor<2x8x8x16xf32>
    %61 = stablehlo.broadcast_in_dim %arg10, dims = [3] : (tensor<16xf32>) -> tensor<1x1x1x16xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<1x1x1x16xf32>) -> tensor<2x8x8x16xf32>
    %63 = stablehlo.add %60, %62 : tensor<2x8x8x16xf32>
    %64 = stablehlo.multiply %63, %63 : tensor<2x8x8x16xf32>
    %65 = stablehlo.multiply %64, %63 : tensor<2x8x8x16xf32>
    %cst_8 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %67 = stablehlo.multiply %66, %65 : tensor<2x8x8x16xf32>
    %68 = stablehlo.add %63, %67 : tensor<2x8x8x16xf32>
    %cst_9 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %70 = stablehlo.multiply %69, %68 : tensor<2x8x8x16xf32>
    %71 = stablehlo.tanh %70 : tensor<2x8x8x16xf32>
    %cst_10 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %73 = stablehlo.add %72, %71 : tensor<2x8x8x16xf32>
    %cst_11 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %75 = stablehlo.multiply %74, %73 : tensor<2x8x8x16xf32>
    %76 = stablehlo.multiply %63, %75 : tensor<2x8x8x16xf32>
    %77 = stablehlo.add %54, %76 : tensor<2x8x8x16xf32>
    %78 = call @relu_0(%77) : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<f32>
    %80 = "stablehlo.reduce_window"(%78, %79) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg17: tensor<f32>, %arg18: tensor<f32>):
      %90 = stablehlo.add %arg17, %arg18 : tensor<f32>
      stablehlo.return %90 : tensor<f32>
    }) : (tensor<2x8x8x16xf32>, tensor<f32>) -> tensor<2x4x4x16xf32>
    %cst_13 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %81 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x4x4x16xf32>
    %82 = stablehlo.divide %80, %81 : tensor<2x4x4x16xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %83 = stablehlo.reduce(%82 init: %cst_14) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x4x4x16xf32>, tensor<f32>) -> tensor<2x16xf32>
    %cst_15 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x16xf32>
    %85 = stablehlo.divide %83, %84 : tensor<2x16xf32>
    %86 = stablehlo.dot_general %85, %arg13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16xf32>, tensor<16x10xf32>) -> tensor<2x10xf32>
    %87 = stablehlo.broadcast_in_dim %arg12, dims = [1] : (tensor<10xf32>) -> tensor<1x10xf32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0, 1] : (tensor<1x10xf32>) -> tensor<2x10xf32>
    %89 = stablehlo.add %86, %88 : tensor<2x10xf32>
    return %89 : tensor<2x10xf32>
  }
  func.func private @relu(%arg0: tensor<2x16x16x16xf32>) -> tensor<2x16x16x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x16x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x16x16x16xf32>
    return %1 : tensor<2x16x16x16xf32>
  }
  func.func private @silu(%arg0: tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32> {
    %0 = stablehlo.negate %arg0 : tensor<2x8x8x16xf32>
    %1 = stablehlo.exponential %0 : tensor<2x8x8x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x8x8x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %5 = stablehlo.divide %4, %3 : tensor<2x8x8x16xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x8x8x16xf32>
    return %6 : tensor<2x8x8x16xf32>
  }
  func.func private @relu_0(%arg0: tensor<2x8x8x16xf32>) -> tensor<2x8x8x16xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x8x16xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x8x16xf32>
    return %1 : tensor<2x8x8x16xf32>
  }
}
