module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32> loc("variables['params']['ConvTranspose_0']['bias']"), %arg1: tensor<2x2x8x6xf32> loc("variables['params']['ConvTranspose_0']['kernel']"), %arg2: tensor<6xf32> loc("variables['params']['ConvTranspose_1']['bias']"), %arg3: tensor<4x4x6x6xf32> loc("variables['params']['ConvTranspose_1']['kernel']"), %arg4: tensor<4xf32> loc("variables['params']['ConvTranspose_2']['bias']"), %arg5: tensor<3x3x6x4xf32> loc("variables['params']['ConvTranspose_2']['kernel']"), %arg6: tensor<8xf32> loc("variables['params']['Conv_0']['bias']"), %arg7: tensor<3x3x3x8xf32> loc("variables['params']['Conv_0']['kernel']"), %arg8: tensor<5xf32> loc("variables['params']['Dense_0']['bias']"), %arg9: tensor<4x5xf32> loc("variables['params']['Dense_0']['kernel']"), %arg10: tensor<2x8x8x3xf32> loc("x")) -> (tensor<2x5xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg10, %arg7) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x3xf32>, tensor<3x3x3x8xf32>) -> tensor<2x4x4x8xf32>
    %1 = stablehlo.reshape %arg6 : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<2x4x4x8xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x4x4x8xf32>
    %4 = call @relu(%3) : (tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32>
    %5 = stablehlo.convolution(%4, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x8xf32>, tensor<2x2x8x6xf32>) -> tensor<2x8x8x6xf32>
    %6 = stablehlo.reshape %arg0 : (tensor<6xf32>) -> tensor<1x1x1x6xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2, 3] : (tensor<1x1x1x6xf32>) -> tensor<2x8x8x6xf32>
    %8 = stablehlo.add %5, %7 : tensor<2x8x8x6xf32>
    %9 = call @relu_0(%8) : (tensor<2x8x8x6xf32>) -> tensor<2x8x8x6xf32>
    %10 = stablehlo.convolution(%9, %arg3) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[3, 3], [3, 3]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x8x8x6xf32>, tensor<4x4x6x6xf32>) -> tensor<2x18x18x6xf32>
    %11 = stablehlo.reshape %arg2 : (tensor<6xf32>) -> tensor<1x1x1x6xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1, 2, 3] : (tensor<1x1x1x6xf32>) -> tensor<2x18x18x6xf32>
    %13 = stablehlo.add %10, %12 : tensor<2x18x18x6xf32>
    %14 = call @relu_1(%13) : (tensor<2x18x18x6xf32>) -> tensor<2x18x18x6xf32>
    %15 = stablehlo.convolution(%14, %arg5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x18x18x6xf32>, tensor<3x3x6x4xf32>) -> tensor<2x18x18x4xf32>
    %16 = stablehlo.reshape %arg4 : (tensor<4xf32>) -> tensor<1x1x1x4xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2, 3] : (tensor<1x1x1x4xf32>) -> tensor<2x18x18x4xf32>
    %18 = stablehlo.add %15, %17 : tensor<2x18x18x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %19 = stablehlo.reduce(%18 init: %cst) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x18x18x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %cst_0 = stablehlo.constant dense<3.240000e+02> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %21 = stablehlo.divide %19, %20 : tensor<2x4xf32>
    %22 = stablehlo.dot_general %21, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
    %23 = stablehlo.reshape %arg8 : (tensor<5xf32>) -> tensor<1x5xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<2x5xf32>
    %25 = stablehlo.add %22, %24 : tensor<2x5xf32>
    return %25 : tensor<2x5xf32>
  }
  func.func private @relu(%arg0: tensor<2x4x4x8xf32>) -> tensor<2x4x4x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x4x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x4x4x8xf32>
    return %1 : tensor<2x4x4x8xf32>
  }
  func.func private @relu_0(%arg0: tensor<2x8x8x6xf32>) -> tensor<2x8x8x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x8x6xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x8x6xf32>
    return %1 : tensor<2x8x8x6xf32>
  }
  func.func private @relu_1(%arg0: tensor<2x18x18x6xf32>) -> tensor<2x18x18x6xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x18x18x6xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x18x18x6xf32>
    return %1 : tensor<2x18x18x6xf32>
  }
}
