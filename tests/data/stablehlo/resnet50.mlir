module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64xf32> loc("variables['params']['BatchNorm_0']['bias']"), %arg1: tensor<64xf32> loc("variables['params']['BatchNorm_0']['scale']"), %arg2: tensor<64xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_0']['bias']"), %arg3: tensor<64xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_0']['scale']"), %arg4: tensor<64xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_1']['bias']"), %arg5: tensor<64xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_1']['scale']"), %arg6: tensor<256xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_2']['bias']"), %arg7: tensor<256xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_2']['scale']"), %arg8: tensor<256xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_3']['bias']"), %arg9: tensor<256xf32> loc("variables['params']['Bottleneck_0']['BatchNorm_3']['scale']"), %arg10: tensor<1x1x64x64xf32> loc("variables['params']['Bottleneck_0']['Conv_0']['kernel']"), %arg11: tensor<3x3x64x64xf32> loc("variables['params']['Bottleneck_0']['Conv_1']['kernel']"), %arg12: tensor<1x1x64x256xf32> loc("variables['params']['Bottleneck_0']['Conv_2']['kernel']"), %arg13: tensor<1x1x64x256xf32> loc("variables['params']['Bottleneck_0']['Conv_3']['kernel']"), %arg14: tensor<64xf32> loc("variables['params']['Bottleneck_1']['BatchNorm_0']['bias']"), %arg15: tensor<64xf32> loc("variables['params']['Bottleneck_1']['BatchNorm_0']['scale']"), %arg16: tensor<64xf32> loc("variables['params']['Bottleneck_1']['BatchNorm_1']['bias']"), %arg17: tensor<64xf32> loc("variables['params']['Bottleneck_1']['BatchNorm_1']['scale']"), %arg18: tensor<256xf32> loc("variables['params']['Bottleneck_1']['BatchNorm_2']['bias']"), %arg19: tensor<256xf32> loc("variables['params']['Bottleneck_1']['BatchNorm_2']['scale']"), %arg20: tensor<1x1x256x64xf32> loc("variables['params']['Bottleneck_1']['Conv_0']['kernel']"), %arg21: tensor<3x3x64x64xf32> loc("variables['params']['Bottleneck_1']['Conv_1']['kernel']"), %arg22: tensor<1x1x64x256xf32> loc("variables['params']['Bottleneck_1']['Conv_2']['kernel']"), %arg23: tensor<256xf32> loc("variables['params']['Bottleneck_10']['BatchNorm_0']['bias']"), %arg24: tensor<256xf32> loc("variables['params']['Bottleneck_10']['BatchNorm_0']['scale']"), %arg25: tensor<256xf32> loc("variables['params']['Bottleneck_10']['BatchNorm_1']['bias']"), %arg26: tensor<256xf32> loc("variables['params']['Bottleneck_10']['BatchNorm_1']['scale']"), %arg27: tensor<1024xf32> loc("variables['params']['Bottleneck_10']['BatchNorm_2']['bias']"), %arg28: tensor<1024xf32> loc("variables['params']['Bottleneck_10']['BatchNorm_2']['scale']"), %arg29: tensor<1x1x1024x256xf32> loc("variables['params']['Bottleneck_10']['Conv_0']['kernel']"), %arg30: tensor<3x3x256x256xf32> loc("variables['params']['Bottleneck_10']['Conv_1']['kernel']"), %arg31: tensor<1x1x256x1024xf32> loc("variables['params']['Bottleneck_10']['Conv_2']['kernel']"), %arg32: tensor<256xf32> loc("variables['params']['Bottleneck_11']['BatchNorm_0']['bias']"), %arg33: tensor<256xf32> loc("variables['params']['Bottleneck_11']['BatchNorm_0']['scale']"), %arg34: tensor<256xf32> loc("variables['params']['Bottleneck_11']['BatchNorm_1']['bias']"), %arg35: tensor<256xf32> loc("variables['params']['Bottleneck_11']['BatchNorm_1']['scale']"), %arg36: tensor<1024xf32> loc("variables['params']['Bottleneck_11']['BatchNorm_2']['bias']"), %arg37: tensor<1024xf32> loc("variables['params']['Bottleneck_11']['BatchNorm_2']['scale']"), %arg38: tensor<1x1x1024x256xf32> loc("variables['params']['Bottleneck_11']['Conv_0']['kernel']"), %arg39: tensor<3x3x256x256xf32> loc("variables['params']['Bottleneck_11']['Conv_1']['kernel']"), %arg40: tensor<1x1x256x1024xf32> loc("variables['params']['Bottleneck_11']['Conv_2']['kernel']"), %arg41: tensor<256xf32> loc("variables['params']['Bottleneck_12']['BatchNorm_0']['bias']"), %arg42: tensor<256xf32> loc("variables['params']['Bottleneck_12']['BatchNorm_0']['scale']"), %arg43: tensor<256xf32> loc("variables['params']['Bottleneck_12']['BatchNorm_1']['bias']"), %arg44: tensor<256xf32> loc("variables['params']['Bottleneck_12']['BatchNorm_1']['scale']"), %arg45: tensor<1024xf32> loc("variables['params']['Bottleneck_12']['BatchNorm_2']['bias']"), %arg46: tensor<1024xf32> loc("variables['params']['Bottleneck_12']['BatchNorm_2']['scale']"), %arg47: tensor<1x1x1024x256xf32> loc("variables['params']['Bottleneck_12']['Conv_0']['kernel']"), %arg48: tensor<3x3x256x256xf32> loc("variables['params']['Bottleneck_12']['Conv_1']['kernel']"), %arg49: tensor<1x1x256x1024xf32> loc("variables['params']['Bottleneck_12']['Conv_2']['kernel']"), %arg50: tensor<512xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_0']['bias']"), %arg51: tensor<512xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_0']['scale']"), %arg52: tensor<512xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_1']['bias']"), %arg53: tensor<512xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_1']['scale']"), %arg54: tensor<2048xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_2']['bias']"), %arg55: tensor<2048xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_2']['scale']"), %arg56: tensor<2048xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_3']['bias']"), %arg57: tensor<2048xf32> loc("variables['params']['Bottleneck_13']['BatchNorm_3']['scale']"), %arg58: tensor<1x1x1024x512xf32> loc("variables['params']['Bottleneck_13']['Conv_0']['kernel']"), %arg59: tensor<3x3x512x512xf32> loc("variables['params']['Bottleneck_13']['Conv_1']['kernel']"), %arg60: tensor<1x1x512x2048xf32> loc("variables['params']['Bottleneck_13']['Conv_2']['kernel']"), %arg61: tensor<1x1x1024x2048xf32> loc("variables['params']['Bottleneck_13']['Conv_3']['kernel']"), %arg62: tensor<512xf32> loc("variables['params']['Bottleneck_14']['BatchNorm_0']['bias']"), %arg63: tensor<512xf32> loc("variables['params']['Bottleneck_14']['BatchNorm_0']['scale']"), %arg64: tensor<512xf32> loc("variables['params']['Bottleneck_14']['BatchNorm_1']['bias']"), %arg65: tensor<512xf32> loc("variables['params']['Bottleneck_14']['BatchNorm_1']['scale']"), %arg66: tensor<2048xf32> loc("variables['params']['Bottleneck_14']['BatchNorm_2']['bias']"), %arg67: tensor<2048xf32> loc("variables['params']['Bottleneck_14']['BatchNorm_2']['scale']"), %arg68: tensor<1x1x2048x512xf32> loc("variables['params']['Bottleneck_14']['Conv_0']['kernel']"), %arg69: tensor<3x3x512x512xf32> loc("variables['params']['Bottleneck_14']['Conv_1']['kernel']"), %arg70: tensor<1x1x512x2048xf32> loc("variables['params']['Bottleneck_14']['Conv_2']['kernel']"), %arg71: tensor<512xf32> loc("variables['params']['Bottleneck_15']['BatchNorm_0']['bias']"), %arg72: tensor<512xf32> loc("variables['params']['Bottleneck_15']['BatchNorm_0']['scale']"), %arg73: tensor<512xf32> loc("variables['params']['Bottleneck_15']['BatchNorm_1']['bias']"), %arg74: tensor<512xf32> loc("variables['params']['Bottleneck_15']['BatchNorm_1']['scale']"), %arg75: tensor<2048xf32> loc("variables['params']['Bottleneck_15']['BatchNorm_2']['bias']"), %arg76: tensor<2048xf32> loc("variables['params']['Bottleneck_15']['BatchNorm_2']['scale']"), %arg77: tensor<1x1x2048x512xf32> loc("variables['params']['Bottleneck_15']['Conv_0']['kernel']"), %arg78: tensor<3x3x512x512xf32> loc("variables['params']['Bottleneck_15']['Conv_1']['kernel']"), %arg79: tensor<1x1x512x2048xf32> loc("variables['params']['Bottleneck_15']['Conv_2']['kernel']"), %arg80: tensor<64xf32> loc("variables['params']['Bottleneck_2']['BatchNorm_0']['bias']"), %arg81: tensor<64xf32> loc("variables['params']['Bottleneck_2']['BatchNorm_0']['scale']"), %arg82: tensor<64xf32> loc("variables['params']['Bottleneck_2']['BatchNorm_1']['bias']"), %arg83: tensor<64xf32> loc("variables['params']['Bottleneck_2']['BatchNorm_1']['scale']"), %arg84: tensor<256xf32> loc("variables['params']['Bottleneck_2']['BatchNorm_2']['bias']"), %arg85: tensor<256xf32> loc("variables['params']['Bottleneck_2']['BatchNorm_2']['scale']"), %arg86: tensor<1x1x256x64xf32> loc("variables['params']['Bottleneck_2']['Conv_0']['kernel']"), %arg87: tensor<3x3x64x64xf32> loc("variables['params']['Bottleneck_2']['Conv_1']['kernel']"), %arg88: tensor<1x1x64x256xf32> loc("variables['params']['Bottleneck_2']['Conv_2']['kernel']"), %arg89: tensor<128xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_0']['bias']"), %arg90: tensor<128xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_0']['scale']"), %arg91: tensor<128xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_1']['bias']"), %arg92: tensor<128xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_1']['scale']"), %arg93: tensor<512xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_2']['bias']"), %arg94: tensor<512xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_2']['scale']"), %arg95: tensor<512xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_3']['bias']"), %arg96: tensor<512xf32> loc("variables['params']['Bottleneck_3']['BatchNorm_3']['scale']"), %arg97: tensor<1x1x256x128xf32> loc("variables['params']['Bottleneck_3']['Conv_0']['kernel']"), %arg98: tensor<3x3x128x128xf32> loc("variables['params']['Bottleneck_3']['Conv_1']['kernel']"), %arg99: tensor<1x1x128x512xf32> loc("variables['params']['Bottleneck_3']['Conv_2']['kernel']"), %arg100: tensor<1x1x256x512xf32> loc("variables['params']['Bottleneck_3']['Conv_3']['kernel']"), %arg101: tensor<128xf32> loc("variables['params']['Bottleneck_4']['BatchNorm_0']['bias']"), %arg102: tensor<128xf32> loc("variables['params']['Bottleneck_4']['BatchNorm_0']['scale']"), %arg103: tensor<128xf32> loc("variables['params']['Bottleneck_4']['BatchNorm_1']['bias']"), %arg104: tensor<128xf32> loc("variables['params']['Bottleneck_4']['BatchNorm_1']['scale']"), %arg105: tensor<512xf32> loc("variables['params']['Bottleneck_4']['BatchNorm_2']['bias']"), %arg106: tensor<512xf32> loc("variables['params']['Bottleneck_4']['BatchNorm_2']['scale']"), %arg107: tensor<1x1x512x128xf32> loc("variables['params']['Bottleneck_4']['Conv_0']['kernel']"), %arg108: tensor<3x3x128x128xf32> loc("variables['params']['Bottleneck_4']['Conv_1']['kernel']"), %arg109: tensor<1x1x128x512xf32> loc("variables['params']['Bottleneck_4']['Conv_2']['kernel']"), %arg110: tensor<128xf32> loc("variables['params']['Bottleneck_5']['BatchNorm_0']['bias']"), %arg111: tensor<128xf32> loc("variables['params']['Bottleneck_5']['BatchNorm_0']['scale']"), %arg112: tensor<128xf32> loc("variables['params']['Bottleneck_5']['BatchNorm_1']['bias']"), %arg113: tensor<128xf32> loc("variables['params']['Bottleneck_5']['BatchNorm_1']['scale']"), %arg114: tensor<512xf32> loc("variables['params']['Bottleneck_5']['BatchNorm_2']['bias']"), %arg115: tensor<512xf32> loc("variables['params']['Bottleneck_5']['BatchNorm_2']['scale']"), %arg116: tensor<1x1x512x128xf32> loc("variables['params']['Bottleneck_5']['Conv_0']['kernel']"), %arg117: tensor<3x3x128x128xf32> loc("variables['params']['Bottleneck_5']['Conv_1']['kernel']"), %arg118: tensor<1x1x128x512xf32> loc("variables['params']['Bottleneck_5']['Conv_2']['kernel']"), %arg119: tensor<128xf32> loc("variables['params']['Bottleneck_6']['BatchNorm_0']['bias']"), %arg120: tensor<128xf32> loc("variables['params']['Bottleneck_6']['BatchNorm_0']['scale']"), %arg121: tensor<128xf32> loc("variables['params']['Bottleneck_6']['BatchNorm_1']['bias']"), %arg122: tensor<128xf32> loc("variables['params']['Bottleneck_6']['BatchNorm_1']['scale']"), %arg123: tensor<512xf32> loc("variables['params']['Bottleneck_6']['BatchNorm_2']['bias']"), %arg124: tensor<512xf32> loc("variables['params']['Bottleneck_6']['BatchNorm_2']['scale']"), %arg125: tensor<1x1x512x128xf32> loc("variables['params']['Bottleneck_6']['Conv_0']['kernel']"), %arg126: tensor<3x3x128x128xf32> loc("variables['params']['Bottleneck_6']['Conv_1']['kernel']"), %arg127: tensor<1x1x128x512xf32> loc("variables['params']['Bottleneck_6']['Conv_2']['kernel']"), %arg128: tensor<256xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_0']['bias']"), %arg129: tensor<256xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_0']['scale']"), %arg130: tensor<256xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_1']['bias']"), %arg131: tensor<256xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_1']['scale']"), %arg132: tensor<1024xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_2']['bias']"), %arg133: tensor<1024xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_2']['scale']"), %arg134: tensor<1024xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_3']['bias']"), %arg135: tensor<1024xf32> loc("variables['params']['Bottleneck_7']['BatchNorm_3']['scale']"), %arg136: tensor<1x1x512x256xf32> loc("variables['params']['Bottleneck_7']['Conv_0']['kernel']"), %arg137: tensor<3x3x256x256xf32> loc("variables['params']['Bottleneck_7']['Conv_1']['kernel']"), %arg138: tensor<1x1x256x1024xf32> loc("variables['params']['Bottleneck_7']['Conv_2']['kernel']"), %arg139: tensor<1x1x512x1024xf32> loc("variables['params']['Bottleneck_7']['Conv_3']['kernel']"), %arg140: tensor<256xf32> loc("variables['params']['Bottleneck_8']['BatchNorm_0']['bias']"), %arg141: tensor<256xf32> loc("variables['params']['Bottleneck_8']['BatchNorm_0']['scale']"), %arg142: tensor<256xf32> loc("variables['params']['Bottleneck_8']['BatchNorm_1']['bias']"), %arg143: tensor<256xf32> loc("variables['params']['Bottleneck_8']['BatchNorm_1']['scale']"), %arg144: tensor<1024xf32> loc("variables['params']['Bottleneck_8']['BatchNorm_2']['bias']"), %arg145: tensor<1024xf32> loc("variables['params']['Bottleneck_8']['BatchNorm_2']['scale']"), %arg146: tensor<1x1x1024x256xf32> loc("variables['params']['Bottleneck_8']['Conv_0']['kernel']"), %arg147: tensor<3x3x256x256xf32> loc("variables['params']['Bottleneck_8']['Conv_1']['kernel']"), %arg148: tensor<1x1x256x1024xf32> loc("variables['params']['Bottleneck_8']['Conv_2']['kernel']"), %arg149: tensor<256xf32> loc("variables['params']['Bottleneck_9']['BatchNorm_0']['bias']"), %arg150: tensor<256xf32> loc("variables['params']['Bottleneck_9']['BatchNorm_0']['scale']"), %arg151: tensor<256xf32> loc("variables['params']['Bottleneck_9']['BatchNorm_1']['bias']"), %arg152: tensor<256xf32> loc("variables['params']['Bottleneck_9']['BatchNorm_1']['scale']"), %arg153: tensor<1024xf32> loc("variables['params']['Bottleneck_9']['BatchNorm_2']['bias']"), %arg154: tensor<1024xf32> loc("variables['params']['Bottleneck_9']['BatchNorm_2']['scale']"), %arg155: tensor<1x1x1024x256xf32> loc("variables['params']['Bottleneck_9']['Conv_0']['kernel']"), %arg156: tensor<3x3x256x256xf32> loc("variables['params']['Bottleneck_9']['Conv_1']['kernel']"), %arg157: tensor<1x1x256x1024xf32> loc("variables['params']['Bottleneck_9']['Conv_2']['kernel']"), %arg158: tensor<7x7x3x64xf32> loc("variables['params']['Conv_0']['kernel']"), %arg159: tensor<1000xf32> loc("variables['params']['Dense_0']['bias']"), %arg160: tensor<2048x1000xf32> loc("variables['params']['Dense_0']['kernel']"), %arg161: tensor<2x224x224x3xf32> loc("x")) -> (tensor<2x1000xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg161, %arg158) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[3, 3], [3, 3]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x224x224x3xf32>, tensor<7x7x3x64xf32>) -> tensor<2x112x112x64xf32>
    %1 = chlo.square %0 : tensor<2x112x112x64xf32> -> tensor<2x112x112x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x112x112x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_0 = stablehlo.constant dense<2.508800e+04> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %4 = stablehlo.divide %2, %3 : tensor<64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%1 init: %cst_1) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x112x112x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_2 = stablehlo.constant dense<2.508800e+04> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %7 = stablehlo.divide %5, %6 : tensor<64xf32>
    %8 = chlo.square %4 : tensor<64xf32> -> tensor<64xf32>
    %9 = stablehlo.subtract %7, %8 : tensor<64xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %11 = stablehlo.maximum %10, %9 : tensor<64xf32>
    %12 = stablehlo.broadcast_in_dim %4, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %13 = stablehlo.broadcast_in_dim %11, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x112x112x64xf32>
    %15 = stablehlo.subtract %0, %14 : tensor<2x112x112x64xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %17 = stablehlo.add %13, %16 : tensor<1x1x1x64xf32>
    %18 = stablehlo.rsqrt %17 : tensor<1x1x1x64xf32>
    %19 = stablehlo.reshape %arg1 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %20 = stablehlo.multiply %18, %19 : tensor<1x1x1x64xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x112x112x64xf32>
    %22 = stablehlo.multiply %15, %21 : tensor<2x112x112x64xf32>
    %23 = stablehlo.reshape %arg0 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x112x112x64xf32>
    %25 = stablehlo.add %22, %24 : tensor<2x112x112x64xf32>
    %26 = call @relu(%25) : (tensor<2x112x112x64xf32>) -> tensor<2x112x112x64xf32>
    %cst_5 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<f32>
    %28 = "stablehlo.reduce_window"(%26, %27) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [1, 1], [0, 0]]> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg162: tensor<f32>, %arg163: tensor<f32>):
      %1452 = stablehlo.maximum %arg162, %arg163 : tensor<f32>
      stablehlo.return %1452 : tensor<f32>
    }) : (tensor<2x112x112x64xf32>, tensor<f32>) -> tensor<2x56x56x64xf32>
    %29 = stablehlo.convolution(%28, %arg10) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<1x1x64x64xf32>) -> tensor<2x56x56x64xf32>
    %30 = chlo.square %29 : tensor<2x56x56x64xf32> -> tensor<2x56x56x64xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%29 init: %cst_6) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_7 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %33 = stablehlo.divide %31, %32 : tensor<64xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.reduce(%30 init: %cst_8) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_9 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %36 = stablehlo.divide %34, %35 : tensor<64xf32>
    %37 = chlo.square %33 : tensor<64xf32> -> tensor<64xf32>
    %38 = stablehlo.subtract %36, %37 : tensor<64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %40 = stablehlo.maximum %39, %38 : tensor<64xf32>
    %41 = stablehlo.broadcast_in_dim %33, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %42 = stablehlo.broadcast_in_dim %40, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %43 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %44 = stablehlo.subtract %29, %43 : tensor<2x56x56x64xf32>
    %cst_11 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %46 = stablehlo.add %42, %45 : tensor<1x1x1x64xf32>
    %47 = stablehlo.rsqrt %46 : tensor<1x1x1x64xf32>
    %48 = stablehlo.reshape %arg3 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %49 = stablehlo.multiply %47, %48 : tensor<1x1x1x64xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %51 = stablehlo.multiply %44, %50 : tensor<2x56x56x64xf32>
    %52 = stablehlo.reshape %arg2 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %54 = stablehlo.add %51, %53 : tensor<2x56x56x64xf32>
    %55 = call @relu_0(%54) : (tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
    %56 = stablehlo.convolution(%55, %arg11) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<3x3x64x64xf32>) -> tensor<2x56x56x64xf32>
    %57 = chlo.square %56 : tensor<2x56x56x64xf32> -> tensor<2x56x56x64xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %58 = stablehlo.reduce(%56 init: %cst_12) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_13 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %60 = stablehlo.divide %58, %59 : tensor<64xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%57 init: %cst_14) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_15 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %63 = stablehlo.divide %61, %62 : tensor<64xf32>
    %64 = chlo.square %60 : tensor<64xf32> -> tensor<64xf32>
    %65 = stablehlo.subtract %63, %64 : tensor<64xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %67 = stablehlo.maximum %66, %65 : tensor<64xf32>
    %68 = stablehlo.broadcast_in_dim %60, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %69 = stablehlo.broadcast_in_dim %67, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %70 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %71 = stablehlo.subtract %56, %70 : tensor<2x56x56x64xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %73 = stablehlo.add %69, %72 : tensor<1x1x1x64xf32>
    %74 = stablehlo.rsqrt %73 : tensor<1x1x1x64xf32>
    %75 = stablehlo.reshape %arg5 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %76 = stablehlo.multiply %74, %75 : tensor<1x1x1x64xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %78 = stablehlo.multiply %71, %77 : tensor<2x56x56x64xf32>
    %79 = stablehlo.reshape %arg4 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %81 = stablehlo.add %78, %80 : tensor<2x56x56x64xf32>
    %82 = call @relu_0(%81) : (tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
    %83 = stablehlo.convolution(%82, %arg12) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<1x1x64x256xf32>) -> tensor<2x56x56x256xf32>
    %84 = chlo.square %83 : tensor<2x56x56x256xf32> -> tensor<2x56x56x256xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %85 = stablehlo.reduce(%83 init: %cst_18) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_19 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %87 = stablehlo.divide %85, %86 : tensor<256xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %88 = stablehlo.reduce(%84 init: %cst_20) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_21 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %90 = stablehlo.divide %88, %89 : tensor<256xf32>
    %91 = chlo.square %87 : tensor<256xf32> -> tensor<256xf32>
    %92 = stablehlo.subtract %90, %91 : tensor<256xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %94 = stablehlo.maximum %93, %92 : tensor<256xf32>
    %95 = stablehlo.broadcast_in_dim %87, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %96 = stablehlo.broadcast_in_dim %94, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %97 = stablehlo.broadcast_in_dim %95, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %98 = stablehlo.subtract %83, %97 : tensor<2x56x56x256xf32>
    %cst_23 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %100 = stablehlo.add %96, %99 : tensor<1x1x1x256xf32>
    %101 = stablehlo.rsqrt %100 : tensor<1x1x1x256xf32>
    %102 = stablehlo.reshape %arg7 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %103 = stablehlo.multiply %101, %102 : tensor<1x1x1x256xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %105 = stablehlo.multiply %98, %104 : tensor<2x56x56x256xf32>
    %106 = stablehlo.reshape %arg6 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %107 = stablehlo.broadcast_in_dim %106, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %108 = stablehlo.add %105, %107 : tensor<2x56x56x256xf32>
    %109 = stablehlo.convolution(%28, %arg13) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<1x1x64x256xf32>) -> tensor<2x56x56x256xf32>
    %110 = chlo.square %109 : tensor<2x56x56x256xf32> -> tensor<2x56x56x256xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%109 init: %cst_24) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_25 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %112 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %113 = stablehlo.divide %111, %112 : tensor<256xf32>
    %cst_26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%110 init: %cst_26) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_27 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %116 = stablehlo.divide %114, %115 : tensor<256xf32>
    %117 = chlo.square %113 : tensor<256xf32> -> tensor<256xf32>
    %118 = stablehlo.subtract %116, %117 : tensor<256xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %120 = stablehlo.maximum %119, %118 : tensor<256xf32>
    %121 = stablehlo.broadcast_in_dim %113, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %122 = stablehlo.broadcast_in_dim %120, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %123 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %124 = stablehlo.subtract %109, %123 : tensor<2x56x56x256xf32>
    %cst_29 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %126 = stablehlo.add %122, %125 : tensor<1x1x1x256xf32>
    %127 = stablehlo.rsqrt %126 : tensor<1x1x1x256xf32>
    %128 = stablehlo.reshape %arg9 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %129 = stablehlo.multiply %127, %128 : tensor<1x1x1x256xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %131 = stablehlo.multiply %124, %130 : tensor<2x56x56x256xf32>
    %132 = stablehlo.reshape %arg8 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %134 = stablehlo.add %131, %133 : tensor<2x56x56x256xf32>
    %135 = stablehlo.add %134, %108 : tensor<2x56x56x256xf32>
    %136 = call @relu_1(%135) : (tensor<2x56x56x256xf32>) -> tensor<2x56x56x256xf32>
    %137 = stablehlo.convolution(%136, %arg20) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x256xf32>, tensor<1x1x256x64xf32>) -> tensor<2x56x56x64xf32>
    %138 = chlo.square %137 : tensor<2x56x56x64xf32> -> tensor<2x56x56x64xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %139 = stablehlo.reduce(%137 init: %cst_30) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_31 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %140 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %141 = stablehlo.divide %139, %140 : tensor<64xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %142 = stablehlo.reduce(%138 init: %cst_32) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_33 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %143 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %144 = stablehlo.divide %142, %143 : tensor<64xf32>
    %145 = chlo.square %141 : tensor<64xf32> -> tensor<64xf32>
    %146 = stablehlo.subtract %144, %145 : tensor<64xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %148 = stablehlo.maximum %147, %146 : tensor<64xf32>
    %149 = stablehlo.broadcast_in_dim %141, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %150 = stablehlo.broadcast_in_dim %148, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %151 = stablehlo.broadcast_in_dim %149, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %152 = stablehlo.subtract %137, %151 : tensor<2x56x56x64xf32>
    %cst_35 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %154 = stablehlo.add %150, %153 : tensor<1x1x1x64xf32>
    %155 = stablehlo.rsqrt %154 : tensor<1x1x1x64xf32>
    %156 = stablehlo.reshape %arg15 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %157 = stablehlo.multiply %155, %156 : tensor<1x1x1x64xf32>
    %158 = stablehlo.broadcast_in_dim %157, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %159 = stablehlo.multiply %152, %158 : tensor<2x56x56x64xf32>
    %160 = stablehlo.reshape %arg14 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %161 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %162 = stablehlo.add %159, %161 : tensor<2x56x56x64xf32>
    %163 = call @relu_0(%162) : (tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
    %164 = stablehlo.convolution(%163, %arg21) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<3x3x64x64xf32>) -> tensor<2x56x56x64xf32>
    %165 = chlo.square %164 : tensor<2x56x56x64xf32> -> tensor<2x56x56x64xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %166 = stablehlo.reduce(%164 init: %cst_36) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_37 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %167 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %168 = stablehlo.divide %166, %167 : tensor<64xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %169 = stablehlo.reduce(%165 init: %cst_38) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_39 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %170 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %171 = stablehlo.divide %169, %170 : tensor<64xf32>
    %172 = chlo.square %168 : tensor<64xf32> -> tensor<64xf32>
    %173 = stablehlo.subtract %171, %172 : tensor<64xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %174 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %175 = stablehlo.maximum %174, %173 : tensor<64xf32>
    %176 = stablehlo.broadcast_in_dim %168, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %177 = stablehlo.broadcast_in_dim %175, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %178 = stablehlo.broadcast_in_dim %176, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %179 = stablehlo.subtract %164, %178 : tensor<2x56x56x64xf32>
    %cst_41 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %181 = stablehlo.add %177, %180 : tensor<1x1x1x64xf32>
    %182 = stablehlo.rsqrt %181 : tensor<1x1x1x64xf32>
    %183 = stablehlo.reshape %arg17 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %184 = stablehlo.multiply %182, %183 : tensor<1x1x1x64xf32>
    %185 = stablehlo.broadcast_in_dim %184, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %186 = stablehlo.multiply %179, %185 : tensor<2x56x56x64xf32>
    %187 = stablehlo.reshape %arg16 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %188 = stablehlo.broadcast_in_dim %187, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %189 = stablehlo.add %186, %188 : tensor<2x56x56x64xf32>
    %190 = call @relu_0(%189) : (tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
    %191 = stablehlo.convolution(%190, %arg22) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<1x1x64x256xf32>) -> tensor<2x56x56x256xf32>
    %192 = chlo.square %191 : tensor<2x56x56x256xf32> -> tensor<2x56x56x256xf32>
    %cst_42 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %193 = stablehlo.reduce(%191 init: %cst_42) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_43 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %194 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %195 = stablehlo.divide %193, %194 : tensor<256xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %196 = stablehlo.reduce(%192 init: %cst_44) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_45 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %197 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %198 = stablehlo.divide %196, %197 : tensor<256xf32>
    %199 = chlo.square %195 : tensor<256xf32> -> tensor<256xf32>
    %200 = stablehlo.subtract %198, %199 : tensor<256xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %202 = stablehlo.maximum %201, %200 : tensor<256xf32>
    %203 = stablehlo.broadcast_in_dim %195, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %204 = stablehlo.broadcast_in_dim %202, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %205 = stablehlo.broadcast_in_dim %203, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %206 = stablehlo.subtract %191, %205 : tensor<2x56x56x256xf32>
    %cst_47 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %207 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %208 = stablehlo.add %204, %207 : tensor<1x1x1x256xf32>
    %209 = stablehlo.rsqrt %208 : tensor<1x1x1x256xf32>
    %210 = stablehlo.reshape %arg19 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %211 = stablehlo.multiply %209, %210 : tensor<1x1x1x256xf32>
    %212 = stablehlo.broadcast_in_dim %211, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %213 = stablehlo.multiply %206, %212 : tensor<2x56x56x256xf32>
    %214 = stablehlo.reshape %arg18 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %215 = stablehlo.broadcast_in_dim %214, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %216 = stablehlo.add %213, %215 : tensor<2x56x56x256xf32>
    %217 = stablehlo.add %136, %216 : tensor<2x56x56x256xf32>
    %218 = call @relu_1(%217) : (tensor<2x56x56x256xf32>) -> tensor<2x56x56x256xf32>
    %219 = stablehlo.convolution(%218, %arg86) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x256xf32>, tensor<1x1x256x64xf32>) -> tensor<2x56x56x64xf32>
    %220 = chlo.square %219 : tensor<2x56x56x64xf32> -> tensor<2x56x56x64xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %221 = stablehlo.reduce(%219 init: %cst_48) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_49 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %222 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %223 = stablehlo.divide %221, %222 : tensor<64xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%220 init: %cst_50) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_51 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %225 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %226 = stablehlo.divide %224, %225 : tensor<64xf32>
    %227 = chlo.square %223 : tensor<64xf32> -> tensor<64xf32>
    %228 = stablehlo.subtract %226, %227 : tensor<64xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %230 = stablehlo.maximum %229, %228 : tensor<64xf32>
    %231 = stablehlo.broadcast_in_dim %223, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %232 = stablehlo.broadcast_in_dim %230, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %233 = stablehlo.broadcast_in_dim %231, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %234 = stablehlo.subtract %219, %233 : tensor<2x56x56x64xf32>
    %cst_53 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %236 = stablehlo.add %232, %235 : tensor<1x1x1x64xf32>
    %237 = stablehlo.rsqrt %236 : tensor<1x1x1x64xf32>
    %238 = stablehlo.reshape %arg81 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %239 = stablehlo.multiply %237, %238 : tensor<1x1x1x64xf32>
    %240 = stablehlo.broadcast_in_dim %239, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %241 = stablehlo.multiply %234, %240 : tensor<2x56x56x64xf32>
    %242 = stablehlo.reshape %arg80 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %244 = stablehlo.add %241, %243 : tensor<2x56x56x64xf32>
    %245 = call @relu_0(%244) : (tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
    %246 = stablehlo.convolution(%245, %arg87) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<3x3x64x64xf32>) -> tensor<2x56x56x64xf32>
    %247 = chlo.square %246 : tensor<2x56x56x64xf32> -> tensor<2x56x56x64xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %248 = stablehlo.reduce(%246 init: %cst_54) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_55 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %249 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %250 = stablehlo.divide %248, %249 : tensor<64xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %251 = stablehlo.reduce(%247 init: %cst_56) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    %cst_57 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %252 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %253 = stablehlo.divide %251, %252 : tensor<64xf32>
    %254 = chlo.square %250 : tensor<64xf32> -> tensor<64xf32>
    %255 = stablehlo.subtract %253, %254 : tensor<64xf32>
    %cst_58 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %256 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<64xf32>
    %257 = stablehlo.maximum %256, %255 : tensor<64xf32>
    %258 = stablehlo.broadcast_in_dim %250, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %259 = stablehlo.broadcast_in_dim %257, dims = [3] : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %260 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %261 = stablehlo.subtract %246, %260 : tensor<2x56x56x64xf32>
    %cst_59 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %262 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<f32>) -> tensor<1x1x1x64xf32>
    %263 = stablehlo.add %259, %262 : tensor<1x1x1x64xf32>
    %264 = stablehlo.rsqrt %263 : tensor<1x1x1x64xf32>
    %265 = stablehlo.reshape %arg83 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %266 = stablehlo.multiply %264, %265 : tensor<1x1x1x64xf32>
    %267 = stablehlo.broadcast_in_dim %266, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %268 = stablehlo.multiply %261, %267 : tensor<2x56x56x64xf32>
    %269 = stablehlo.reshape %arg82 : (tensor<64xf32>) -> tensor<1x1x1x64xf32>
    %270 = stablehlo.broadcast_in_dim %269, dims = [0, 1, 2, 3] : (tensor<1x1x1x64xf32>) -> tensor<2x56x56x64xf32>
    %271 = stablehlo.add %268, %270 : tensor<2x56x56x64xf32>
    %272 = call @relu_0(%271) : (tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32>
    %273 = stablehlo.convolution(%272, %arg88) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x64xf32>, tensor<1x1x64x256xf32>) -> tensor<2x56x56x256xf32>
    %274 = chlo.square %273 : tensor<2x56x56x256xf32> -> tensor<2x56x56x256xf32>
    %cst_60 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %275 = stablehlo.reduce(%273 init: %cst_60) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_61 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %276 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %277 = stablehlo.divide %275, %276 : tensor<256xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %278 = stablehlo.reduce(%274 init: %cst_62) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_63 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %279 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %280 = stablehlo.divide %278, %279 : tensor<256xf32>
    %281 = chlo.square %277 : tensor<256xf32> -> tensor<256xf32>
    %282 = stablehlo.subtract %280, %281 : tensor<256xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %283 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %284 = stablehlo.maximum %283, %282 : tensor<256xf32>
    %285 = stablehlo.broadcast_in_dim %277, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %286 = stablehlo.broadcast_in_dim %284, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %287 = stablehlo.broadcast_in_dim %285, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %288 = stablehlo.subtract %273, %287 : tensor<2x56x56x256xf32>
    %cst_65 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %289 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %290 = stablehlo.add %286, %289 : tensor<1x1x1x256xf32>
    %291 = stablehlo.rsqrt %290 : tensor<1x1x1x256xf32>
    %292 = stablehlo.reshape %arg85 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %293 = stablehlo.multiply %291, %292 : tensor<1x1x1x256xf32>
    %294 = stablehlo.broadcast_in_dim %293, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %295 = stablehlo.multiply %288, %294 : tensor<2x56x56x256xf32>
    %296 = stablehlo.reshape %arg84 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %297 = stablehlo.broadcast_in_dim %296, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x56x56x256xf32>
    %298 = stablehlo.add %295, %297 : tensor<2x56x56x256xf32>
    %299 = stablehlo.add %218, %298 : tensor<2x56x56x256xf32>
    %300 = call @relu_1(%299) : (tensor<2x56x56x256xf32>) -> tensor<2x56x56x256xf32>
    %301 = stablehlo.convolution(%300, %arg97) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x256xf32>, tensor<1x1x256x128xf32>) -> tensor<2x56x56x128xf32>
    %302 = chlo.square %301 : tensor<2x56x56x128xf32> -> tensor<2x56x56x128xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %303 = stablehlo.reduce(%301 init: %cst_66) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_67 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %304 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %305 = stablehlo.divide %303, %304 : tensor<128xf32>
    %cst_68 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %306 = stablehlo.reduce(%302 init: %cst_68) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x56x56x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_69 = stablehlo.constant dense<6.272000e+03> : tensor<f32>
    %307 = stablehlo.broadcast_in_dim %cst_69, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %308 = stablehlo.divide %306, %307 : tensor<128xf32>
    %309 = chlo.square %305 : tensor<128xf32> -> tensor<128xf32>
    %310 = stablehlo.subtract %308, %309 : tensor<128xf32>
    %cst_70 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %311 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %312 = stablehlo.maximum %311, %310 : tensor<128xf32>
    %313 = stablehlo.broadcast_in_dim %305, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %314 = stablehlo.broadcast_in_dim %312, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %315 = stablehlo.broadcast_in_dim %313, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x56x56x128xf32>
    %316 = stablehlo.subtract %301, %315 : tensor<2x56x56x128xf32>
    %cst_71 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %317 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %318 = stablehlo.add %314, %317 : tensor<1x1x1x128xf32>
    %319 = stablehlo.rsqrt %318 : tensor<1x1x1x128xf32>
    %320 = stablehlo.reshape %arg90 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %321 = stablehlo.multiply %319, %320 : tensor<1x1x1x128xf32>
    %322 = stablehlo.broadcast_in_dim %321, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x56x56x128xf32>
    %323 = stablehlo.multiply %316, %322 : tensor<2x56x56x128xf32>
    %324 = stablehlo.reshape %arg89 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %325 = stablehlo.broadcast_in_dim %324, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x56x56x128xf32>
    %326 = stablehlo.add %323, %325 : tensor<2x56x56x128xf32>
    %327 = call @relu_2(%326) : (tensor<2x56x56x128xf32>) -> tensor<2x56x56x128xf32>
    %328 = stablehlo.convolution(%327, %arg98) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x128xf32>, tensor<3x3x128x128xf32>) -> tensor<2x28x28x128xf32>
    %329 = chlo.square %328 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_72 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %330 = stablehlo.reduce(%328 init: %cst_72) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_73 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %331 = stablehlo.broadcast_in_dim %cst_73, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %332 = stablehlo.divide %330, %331 : tensor<128xf32>
    %cst_74 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %333 = stablehlo.reduce(%329 init: %cst_74) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_75 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %334 = stablehlo.broadcast_in_dim %cst_75, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %335 = stablehlo.divide %333, %334 : tensor<128xf32>
    %336 = chlo.square %332 : tensor<128xf32> -> tensor<128xf32>
    %337 = stablehlo.subtract %335, %336 : tensor<128xf32>
    %cst_76 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %338 = stablehlo.broadcast_in_dim %cst_76, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %339 = stablehlo.maximum %338, %337 : tensor<128xf32>
    %340 = stablehlo.broadcast_in_dim %332, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %341 = stablehlo.broadcast_in_dim %339, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %342 = stablehlo.broadcast_in_dim %340, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %343 = stablehlo.subtract %328, %342 : tensor<2x28x28x128xf32>
    %cst_77 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %344 = stablehlo.broadcast_in_dim %cst_77, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %345 = stablehlo.add %341, %344 : tensor<1x1x1x128xf32>
    %346 = stablehlo.rsqrt %345 : tensor<1x1x1x128xf32>
    %347 = stablehlo.reshape %arg92 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %348 = stablehlo.multiply %346, %347 : tensor<1x1x1x128xf32>
    %349 = stablehlo.broadcast_in_dim %348, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %350 = stablehlo.multiply %343, %349 : tensor<2x28x28x128xf32>
    %351 = stablehlo.reshape %arg91 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %352 = stablehlo.broadcast_in_dim %351, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %353 = stablehlo.add %350, %352 : tensor<2x28x28x128xf32>
    %354 = call @relu_3(%353) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %355 = stablehlo.convolution(%354, %arg99) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<1x1x128x512xf32>) -> tensor<2x28x28x512xf32>
    %356 = chlo.square %355 : tensor<2x28x28x512xf32> -> tensor<2x28x28x512xf32>
    %cst_78 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %357 = stablehlo.reduce(%355 init: %cst_78) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_79 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_79, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %359 = stablehlo.divide %357, %358 : tensor<512xf32>
    %cst_80 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %360 = stablehlo.reduce(%356 init: %cst_80) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_81 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %361 = stablehlo.broadcast_in_dim %cst_81, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %362 = stablehlo.divide %360, %361 : tensor<512xf32>
    %363 = chlo.square %359 : tensor<512xf32> -> tensor<512xf32>
    %364 = stablehlo.subtract %362, %363 : tensor<512xf32>
    %cst_82 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %365 = stablehlo.broadcast_in_dim %cst_82, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %366 = stablehlo.maximum %365, %364 : tensor<512xf32>
    %367 = stablehlo.broadcast_in_dim %359, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %368 = stablehlo.broadcast_in_dim %366, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %369 = stablehlo.broadcast_in_dim %367, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %370 = stablehlo.subtract %355, %369 : tensor<2x28x28x512xf32>
    %cst_83 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %371 = stablehlo.broadcast_in_dim %cst_83, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %372 = stablehlo.add %368, %371 : tensor<1x1x1x512xf32>
    %373 = stablehlo.rsqrt %372 : tensor<1x1x1x512xf32>
    %374 = stablehlo.reshape %arg94 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %375 = stablehlo.multiply %373, %374 : tensor<1x1x1x512xf32>
    %376 = stablehlo.broadcast_in_dim %375, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %377 = stablehlo.multiply %370, %376 : tensor<2x28x28x512xf32>
    %378 = stablehlo.reshape %arg93 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %379 = stablehlo.broadcast_in_dim %378, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %380 = stablehlo.add %377, %379 : tensor<2x28x28x512xf32>
    %381 = stablehlo.convolution(%300, %arg100) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x56x56x256xf32>, tensor<1x1x256x512xf32>) -> tensor<2x28x28x512xf32>
    %382 = chlo.square %381 : tensor<2x28x28x512xf32> -> tensor<2x28x28x512xf32>
    %cst_84 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %383 = stablehlo.reduce(%381 init: %cst_84) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_85 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %384 = stablehlo.broadcast_in_dim %cst_85, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %385 = stablehlo.divide %383, %384 : tensor<512xf32>
    %cst_86 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %386 = stablehlo.reduce(%382 init: %cst_86) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_87 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %387 = stablehlo.broadcast_in_dim %cst_87, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %388 = stablehlo.divide %386, %387 : tensor<512xf32>
    %389 = chlo.square %385 : tensor<512xf32> -> tensor<512xf32>
    %390 = stablehlo.subtract %388, %389 : tensor<512xf32>
    %cst_88 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %391 = stablehlo.broadcast_in_dim %cst_88, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %392 = stablehlo.maximum %391, %390 : tensor<512xf32>
    %393 = stablehlo.broadcast_in_dim %385, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %394 = stablehlo.broadcast_in_dim %392, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %395 = stablehlo.broadcast_in_dim %393, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %396 = stablehlo.subtract %381, %395 : tensor<2x28x28x512xf32>
    %cst_89 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %397 = stablehlo.broadcast_in_dim %cst_89, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %398 = stablehlo.add %394, %397 : tensor<1x1x1x512xf32>
    %399 = stablehlo.rsqrt %398 : tensor<1x1x1x512xf32>
    %400 = stablehlo.reshape %arg96 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %401 = stablehlo.multiply %399, %400 : tensor<1x1x1x512xf32>
    %402 = stablehlo.broadcast_in_dim %401, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %403 = stablehlo.multiply %396, %402 : tensor<2x28x28x512xf32>
    %404 = stablehlo.reshape %arg95 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %405 = stablehlo.broadcast_in_dim %404, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %406 = stablehlo.add %403, %405 : tensor<2x28x28x512xf32>
    %407 = stablehlo.add %406, %380 : tensor<2x28x28x512xf32>
    %408 = call @relu_4(%407) : (tensor<2x28x28x512xf32>) -> tensor<2x28x28x512xf32>
    %409 = stablehlo.convolution(%408, %arg107) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x512xf32>, tensor<1x1x512x128xf32>) -> tensor<2x28x28x128xf32>
    %410 = chlo.square %409 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_90 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %411 = stablehlo.reduce(%409 init: %cst_90) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_91 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %412 = stablehlo.broadcast_in_dim %cst_91, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %413 = stablehlo.divide %411, %412 : tensor<128xf32>
    %cst_92 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %414 = stablehlo.reduce(%410 init: %cst_92) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_93 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %415 = stablehlo.broadcast_in_dim %cst_93, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %416 = stablehlo.divide %414, %415 : tensor<128xf32>
    %417 = chlo.square %413 : tensor<128xf32> -> tensor<128xf32>
    %418 = stablehlo.subtract %416, %417 : tensor<128xf32>
    %cst_94 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %419 = stablehlo.broadcast_in_dim %cst_94, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %420 = stablehlo.maximum %419, %418 : tensor<128xf32>
    %421 = stablehlo.broadcast_in_dim %413, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %422 = stablehlo.broadcast_in_dim %420, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %423 = stablehlo.broadcast_in_dim %421, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %424 = stablehlo.subtract %409, %423 : tensor<2x28x28x128xf32>
    %cst_95 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %425 = stablehlo.broadcast_in_dim %cst_95, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %426 = stablehlo.add %422, %425 : tensor<1x1x1x128xf32>
    %427 = stablehlo.rsqrt %426 : tensor<1x1x1x128xf32>
    %428 = stablehlo.reshape %arg102 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %429 = stablehlo.multiply %427, %428 : tensor<1x1x1x128xf32>
    %430 = stablehlo.broadcast_in_dim %429, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %431 = stablehlo.multiply %424, %430 : tensor<2x28x28x128xf32>
    %432 = stablehlo.reshape %arg101 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %433 = stablehlo.broadcast_in_dim %432, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %434 = stablehlo.add %431, %433 : tensor<2x28x28x128xf32>
    %435 = call @relu_3(%434) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %436 = stablehlo.convolution(%435, %arg108) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<3x3x128x128xf32>) -> tensor<2x28x28x128xf32>
    %437 = chlo.square %436 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_96 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %438 = stablehlo.reduce(%436 init: %cst_96) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_97 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %439 = stablehlo.broadcast_in_dim %cst_97, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %440 = stablehlo.divide %438, %439 : tensor<128xf32>
    %cst_98 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %441 = stablehlo.reduce(%437 init: %cst_98) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_99 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %442 = stablehlo.broadcast_in_dim %cst_99, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %443 = stablehlo.divide %441, %442 : tensor<128xf32>
    %444 = chlo.square %440 : tensor<128xf32> -> tensor<128xf32>
    %445 = stablehlo.subtract %443, %444 : tensor<128xf32>
    %cst_100 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %446 = stablehlo.broadcast_in_dim %cst_100, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %447 = stablehlo.maximum %446, %445 : tensor<128xf32>
    %448 = stablehlo.broadcast_in_dim %440, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %449 = stablehlo.broadcast_in_dim %447, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %450 = stablehlo.broadcast_in_dim %448, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %451 = stablehlo.subtract %436, %450 : tensor<2x28x28x128xf32>
    %cst_101 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %452 = stablehlo.broadcast_in_dim %cst_101, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %453 = stablehlo.add %449, %452 : tensor<1x1x1x128xf32>
    %454 = stablehlo.rsqrt %453 : tensor<1x1x1x128xf32>
    %455 = stablehlo.reshape %arg104 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %456 = stablehlo.multiply %454, %455 : tensor<1x1x1x128xf32>
    %457 = stablehlo.broadcast_in_dim %456, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %458 = stablehlo.multiply %451, %457 : tensor<2x28x28x128xf32>
    %459 = stablehlo.reshape %arg103 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %460 = stablehlo.broadcast_in_dim %459, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %461 = stablehlo.add %458, %460 : tensor<2x28x28x128xf32>
    %462 = call @relu_3(%461) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %463 = stablehlo.convolution(%462, %arg109) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<1x1x128x512xf32>) -> tensor<2x28x28x512xf32>
    %464 = chlo.square %463 : tensor<2x28x28x512xf32> -> tensor<2x28x28x512xf32>
    %cst_102 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %465 = stablehlo.reduce(%463 init: %cst_102) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_103 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %466 = stablehlo.broadcast_in_dim %cst_103, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %467 = stablehlo.divide %465, %466 : tensor<512xf32>
    %cst_104 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %468 = stablehlo.reduce(%464 init: %cst_104) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_105 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %469 = stablehlo.broadcast_in_dim %cst_105, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %470 = stablehlo.divide %468, %469 : tensor<512xf32>
    %471 = chlo.square %467 : tensor<512xf32> -> tensor<512xf32>
    %472 = stablehlo.subtract %470, %471 : tensor<512xf32>
    %cst_106 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %473 = stablehlo.broadcast_in_dim %cst_106, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %474 = stablehlo.maximum %473, %472 : tensor<512xf32>
    %475 = stablehlo.broadcast_in_dim %467, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %476 = stablehlo.broadcast_in_dim %474, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %477 = stablehlo.broadcast_in_dim %475, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %478 = stablehlo.subtract %463, %477 : tensor<2x28x28x512xf32>
    %cst_107 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %479 = stablehlo.broadcast_in_dim %cst_107, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %480 = stablehlo.add %476, %479 : tensor<1x1x1x512xf32>
    %481 = stablehlo.rsqrt %480 : tensor<1x1x1x512xf32>
    %482 = stablehlo.reshape %arg106 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %483 = stablehlo.multiply %481, %482 : tensor<1x1x1x512xf32>
    %484 = stablehlo.broadcast_in_dim %483, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %485 = stablehlo.multiply %478, %484 : tensor<2x28x28x512xf32>
    %486 = stablehlo.reshape %arg105 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %487 = stablehlo.broadcast_in_dim %486, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %488 = stablehlo.add %485, %487 : tensor<2x28x28x512xf32>
    %489 = stablehlo.add %408, %488 : tensor<2x28x28x512xf32>
    %490 = call @relu_4(%489) : (tensor<2x28x28x512xf32>) -> tensor<2x28x28x512xf32>
    %491 = stablehlo.convolution(%490, %arg116) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x512xf32>, tensor<1x1x512x128xf32>) -> tensor<2x28x28x128xf32>
    %492 = chlo.square %491 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_108 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %493 = stablehlo.reduce(%491 init: %cst_108) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_109 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %494 = stablehlo.broadcast_in_dim %cst_109, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %495 = stablehlo.divide %493, %494 : tensor<128xf32>
    %cst_110 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %496 = stablehlo.reduce(%492 init: %cst_110) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_111 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %497 = stablehlo.broadcast_in_dim %cst_111, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %498 = stablehlo.divide %496, %497 : tensor<128xf32>
    %499 = chlo.square %495 : tensor<128xf32> -> tensor<128xf32>
    %500 = stablehlo.subtract %498, %499 : tensor<128xf32>
    %cst_112 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %501 = stablehlo.broadcast_in_dim %cst_112, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %502 = stablehlo.maximum %501, %500 : tensor<128xf32>
    %503 = stablehlo.broadcast_in_dim %495, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %504 = stablehlo.broadcast_in_dim %502, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %505 = stablehlo.broadcast_in_dim %503, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %506 = stablehlo.subtract %491, %505 : tensor<2x28x28x128xf32>
    %cst_113 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %507 = stablehlo.broadcast_in_dim %cst_113, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %508 = stablehlo.add %504, %507 : tensor<1x1x1x128xf32>
    %509 = stablehlo.rsqrt %508 : tensor<1x1x1x128xf32>
    %510 = stablehlo.reshape %arg111 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %511 = stablehlo.multiply %509, %510 : tensor<1x1x1x128xf32>
    %512 = stablehlo.broadcast_in_dim %511, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %513 = stablehlo.multiply %506, %512 : tensor<2x28x28x128xf32>
    %514 = stablehlo.reshape %arg110 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %515 = stablehlo.broadcast_in_dim %514, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %516 = stablehlo.add %513, %515 : tensor<2x28x28x128xf32>
    %517 = call @relu_3(%516) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %518 = stablehlo.convolution(%517, %arg117) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<3x3x128x128xf32>) -> tensor<2x28x28x128xf32>
    %519 = chlo.square %518 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_114 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %520 = stablehlo.reduce(%518 init: %cst_114) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_115 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %521 = stablehlo.broadcast_in_dim %cst_115, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %522 = stablehlo.divide %520, %521 : tensor<128xf32>
    %cst_116 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %523 = stablehlo.reduce(%519 init: %cst_116) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_117 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %524 = stablehlo.broadcast_in_dim %cst_117, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %525 = stablehlo.divide %523, %524 : tensor<128xf32>
    %526 = chlo.square %522 : tensor<128xf32> -> tensor<128xf32>
    %527 = stablehlo.subtract %525, %526 : tensor<128xf32>
    %cst_118 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %528 = stablehlo.broadcast_in_dim %cst_118, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %529 = stablehlo.maximum %528, %527 : tensor<128xf32>
    %530 = stablehlo.broadcast_in_dim %522, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %531 = stablehlo.broadcast_in_dim %529, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %532 = stablehlo.broadcast_in_dim %530, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %533 = stablehlo.subtract %518, %532 : tensor<2x28x28x128xf32>
    %cst_119 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %534 = stablehlo.broadcast_in_dim %cst_119, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %535 = stablehlo.add %531, %534 : tensor<1x1x1x128xf32>
    %536 = stablehlo.rsqrt %535 : tensor<1x1x1x128xf32>
    %537 = stablehlo.reshape %arg113 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %538 = stablehlo.multiply %536, %537 : tensor<1x1x1x128xf32>
    %539 = stablehlo.broadcast_in_dim %538, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %540 = stablehlo.multiply %533, %539 : tensor<2x28x28x128xf32>
    %541 = stablehlo.reshape %arg112 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %542 = stablehlo.broadcast_in_dim %541, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %543 = stablehlo.add %540, %542 : tensor<2x28x28x128xf32>
    %544 = call @relu_3(%543) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %545 = stablehlo.convolution(%544, %arg118) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<1x1x128x512xf32>) -> tensor<2x28x28x512xf32>
    %546 = chlo.square %545 : tensor<2x28x28x512xf32> -> tensor<2x28x28x512xf32>
    %cst_120 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %547 = stablehlo.reduce(%545 init: %cst_120) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_121 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %548 = stablehlo.broadcast_in_dim %cst_121, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %549 = stablehlo.divide %547, %548 : tensor<512xf32>
    %cst_122 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %550 = stablehlo.reduce(%546 init: %cst_122) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_123 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %551 = stablehlo.broadcast_in_dim %cst_123, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %552 = stablehlo.divide %550, %551 : tensor<512xf32>
    %553 = chlo.square %549 : tensor<512xf32> -> tensor<512xf32>
    %554 = stablehlo.subtract %552, %553 : tensor<512xf32>
    %cst_124 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %555 = stablehlo.broadcast_in_dim %cst_124, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %556 = stablehlo.maximum %555, %554 : tensor<512xf32>
    %557 = stablehlo.broadcast_in_dim %549, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %558 = stablehlo.broadcast_in_dim %556, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %559 = stablehlo.broadcast_in_dim %557, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %560 = stablehlo.subtract %545, %559 : tensor<2x28x28x512xf32>
    %cst_125 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %561 = stablehlo.broadcast_in_dim %cst_125, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %562 = stablehlo.add %558, %561 : tensor<1x1x1x512xf32>
    %563 = stablehlo.rsqrt %562 : tensor<1x1x1x512xf32>
    %564 = stablehlo.reshape %arg115 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %565 = stablehlo.multiply %563, %564 : tensor<1x1x1x512xf32>
    %566 = stablehlo.broadcast_in_dim %565, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %567 = stablehlo.multiply %560, %566 : tensor<2x28x28x512xf32>
    %568 = stablehlo.reshape %arg114 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %569 = stablehlo.broadcast_in_dim %568, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %570 = stablehlo.add %567, %569 : tensor<2x28x28x512xf32>
    %571 = stablehlo.add %490, %570 : tensor<2x28x28x512xf32>
    %572 = call @relu_4(%571) : (tensor<2x28x28x512xf32>) -> tensor<2x28x28x512xf32>
    %573 = stablehlo.convolution(%572, %arg125) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x512xf32>, tensor<1x1x512x128xf32>) -> tensor<2x28x28x128xf32>
    %574 = chlo.square %573 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_126 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %575 = stablehlo.reduce(%573 init: %cst_126) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_127 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %576 = stablehlo.broadcast_in_dim %cst_127, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %577 = stablehlo.divide %575, %576 : tensor<128xf32>
    %cst_128 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %578 = stablehlo.reduce(%574 init: %cst_128) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_129 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %579 = stablehlo.broadcast_in_dim %cst_129, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %580 = stablehlo.divide %578, %579 : tensor<128xf32>
    %581 = chlo.square %577 : tensor<128xf32> -> tensor<128xf32>
    %582 = stablehlo.subtract %580, %581 : tensor<128xf32>
    %cst_130 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %583 = stablehlo.broadcast_in_dim %cst_130, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %584 = stablehlo.maximum %583, %582 : tensor<128xf32>
    %585 = stablehlo.broadcast_in_dim %577, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %586 = stablehlo.broadcast_in_dim %584, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %587 = stablehlo.broadcast_in_dim %585, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %588 = stablehlo.subtract %573, %587 : tensor<2x28x28x128xf32>
    %cst_131 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %589 = stablehlo.broadcast_in_dim %cst_131, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %590 = stablehlo.add %586, %589 : tensor<1x1x1x128xf32>
    %591 = stablehlo.rsqrt %590 : tensor<1x1x1x128xf32>
    %592 = stablehlo.reshape %arg120 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %593 = stablehlo.multiply %591, %592 : tensor<1x1x1x128xf32>
    %594 = stablehlo.broadcast_in_dim %593, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %595 = stablehlo.multiply %588, %594 : tensor<2x28x28x128xf32>
    %596 = stablehlo.reshape %arg119 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %597 = stablehlo.broadcast_in_dim %596, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %598 = stablehlo.add %595, %597 : tensor<2x28x28x128xf32>
    %599 = call @relu_3(%598) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %600 = stablehlo.convolution(%599, %arg126) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<3x3x128x128xf32>) -> tensor<2x28x28x128xf32>
    %601 = chlo.square %600 : tensor<2x28x28x128xf32> -> tensor<2x28x28x128xf32>
    %cst_132 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %602 = stablehlo.reduce(%600 init: %cst_132) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_133 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %603 = stablehlo.broadcast_in_dim %cst_133, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %604 = stablehlo.divide %602, %603 : tensor<128xf32>
    %cst_134 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %605 = stablehlo.reduce(%601 init: %cst_134) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x128xf32>, tensor<f32>) -> tensor<128xf32>
    %cst_135 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %606 = stablehlo.broadcast_in_dim %cst_135, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %607 = stablehlo.divide %605, %606 : tensor<128xf32>
    %608 = chlo.square %604 : tensor<128xf32> -> tensor<128xf32>
    %609 = stablehlo.subtract %607, %608 : tensor<128xf32>
    %cst_136 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %610 = stablehlo.broadcast_in_dim %cst_136, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %611 = stablehlo.maximum %610, %609 : tensor<128xf32>
    %612 = stablehlo.broadcast_in_dim %604, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %613 = stablehlo.broadcast_in_dim %611, dims = [3] : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %614 = stablehlo.broadcast_in_dim %612, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %615 = stablehlo.subtract %600, %614 : tensor<2x28x28x128xf32>
    %cst_137 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %616 = stablehlo.broadcast_in_dim %cst_137, dims = [] : (tensor<f32>) -> tensor<1x1x1x128xf32>
    %617 = stablehlo.add %613, %616 : tensor<1x1x1x128xf32>
    %618 = stablehlo.rsqrt %617 : tensor<1x1x1x128xf32>
    %619 = stablehlo.reshape %arg122 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %620 = stablehlo.multiply %618, %619 : tensor<1x1x1x128xf32>
    %621 = stablehlo.broadcast_in_dim %620, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %622 = stablehlo.multiply %615, %621 : tensor<2x28x28x128xf32>
    %623 = stablehlo.reshape %arg121 : (tensor<128xf32>) -> tensor<1x1x1x128xf32>
    %624 = stablehlo.broadcast_in_dim %623, dims = [0, 1, 2, 3] : (tensor<1x1x1x128xf32>) -> tensor<2x28x28x128xf32>
    %625 = stablehlo.add %622, %624 : tensor<2x28x28x128xf32>
    %626 = call @relu_3(%625) : (tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32>
    %627 = stablehlo.convolution(%626, %arg127) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x128xf32>, tensor<1x1x128x512xf32>) -> tensor<2x28x28x512xf32>
    %628 = chlo.square %627 : tensor<2x28x28x512xf32> -> tensor<2x28x28x512xf32>
    %cst_138 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %629 = stablehlo.reduce(%627 init: %cst_138) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_139 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %630 = stablehlo.broadcast_in_dim %cst_139, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %631 = stablehlo.divide %629, %630 : tensor<512xf32>
    %cst_140 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %632 = stablehlo.reduce(%628 init: %cst_140) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_141 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %633 = stablehlo.broadcast_in_dim %cst_141, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %634 = stablehlo.divide %632, %633 : tensor<512xf32>
    %635 = chlo.square %631 : tensor<512xf32> -> tensor<512xf32>
    %636 = stablehlo.subtract %634, %635 : tensor<512xf32>
    %cst_142 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %637 = stablehlo.broadcast_in_dim %cst_142, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %638 = stablehlo.maximum %637, %636 : tensor<512xf32>
    %639 = stablehlo.broadcast_in_dim %631, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %640 = stablehlo.broadcast_in_dim %638, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %641 = stablehlo.broadcast_in_dim %639, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %642 = stablehlo.subtract %627, %641 : tensor<2x28x28x512xf32>
    %cst_143 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %643 = stablehlo.broadcast_in_dim %cst_143, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %644 = stablehlo.add %640, %643 : tensor<1x1x1x512xf32>
    %645 = stablehlo.rsqrt %644 : tensor<1x1x1x512xf32>
    %646 = stablehlo.reshape %arg124 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %647 = stablehlo.multiply %645, %646 : tensor<1x1x1x512xf32>
    %648 = stablehlo.broadcast_in_dim %647, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %649 = stablehlo.multiply %642, %648 : tensor<2x28x28x512xf32>
    %650 = stablehlo.reshape %arg123 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %651 = stablehlo.broadcast_in_dim %650, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x28x28x512xf32>
    %652 = stablehlo.add %649, %651 : tensor<2x28x28x512xf32>
    %653 = stablehlo.add %572, %652 : tensor<2x28x28x512xf32>
    %654 = call @relu_4(%653) : (tensor<2x28x28x512xf32>) -> tensor<2x28x28x512xf32>
    %655 = stablehlo.convolution(%654, %arg136) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x512xf32>, tensor<1x1x512x256xf32>) -> tensor<2x28x28x256xf32>
    %656 = chlo.square %655 : tensor<2x28x28x256xf32> -> tensor<2x28x28x256xf32>
    %cst_144 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %657 = stablehlo.reduce(%655 init: %cst_144) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_145 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %658 = stablehlo.broadcast_in_dim %cst_145, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %659 = stablehlo.divide %657, %658 : tensor<256xf32>
    %cst_146 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %660 = stablehlo.reduce(%656 init: %cst_146) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x28x28x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_147 = stablehlo.constant dense<1.568000e+03> : tensor<f32>
    %661 = stablehlo.broadcast_in_dim %cst_147, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %662 = stablehlo.divide %660, %661 : tensor<256xf32>
    %663 = chlo.square %659 : tensor<256xf32> -> tensor<256xf32>
    %664 = stablehlo.subtract %662, %663 : tensor<256xf32>
    %cst_148 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %665 = stablehlo.broadcast_in_dim %cst_148, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %666 = stablehlo.maximum %665, %664 : tensor<256xf32>
    %667 = stablehlo.broadcast_in_dim %659, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %668 = stablehlo.broadcast_in_dim %666, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %669 = stablehlo.broadcast_in_dim %667, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x28x28x256xf32>
    %670 = stablehlo.subtract %655, %669 : tensor<2x28x28x256xf32>
    %cst_149 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %671 = stablehlo.broadcast_in_dim %cst_149, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %672 = stablehlo.add %668, %671 : tensor<1x1x1x256xf32>
    %673 = stablehlo.rsqrt %672 : tensor<1x1x1x256xf32>
    %674 = stablehlo.reshape %arg129 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %675 = stablehlo.multiply %673, %674 : tensor<1x1x1x256xf32>
    %676 = stablehlo.broadcast_in_dim %675, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x28x28x256xf32>
    %677 = stablehlo.multiply %670, %676 : tensor<2x28x28x256xf32>
    %678 = stablehlo.reshape %arg128 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %679 = stablehlo.broadcast_in_dim %678, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x28x28x256xf32>
    %680 = stablehlo.add %677, %679 : tensor<2x28x28x256xf32>
    %681 = call @relu_5(%680) : (tensor<2x28x28x256xf32>) -> tensor<2x28x28x256xf32>
    %682 = stablehlo.convolution(%681, %arg137) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x256xf32>, tensor<3x3x256x256xf32>) -> tensor<2x14x14x256xf32>
    %683 = chlo.square %682 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_150 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %684 = stablehlo.reduce(%682 init: %cst_150) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_151 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %685 = stablehlo.broadcast_in_dim %cst_151, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %686 = stablehlo.divide %684, %685 : tensor<256xf32>
    %cst_152 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %687 = stablehlo.reduce(%683 init: %cst_152) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_153 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %688 = stablehlo.broadcast_in_dim %cst_153, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %689 = stablehlo.divide %687, %688 : tensor<256xf32>
    %690 = chlo.square %686 : tensor<256xf32> -> tensor<256xf32>
    %691 = stablehlo.subtract %689, %690 : tensor<256xf32>
    %cst_154 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %692 = stablehlo.broadcast_in_dim %cst_154, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %693 = stablehlo.maximum %692, %691 : tensor<256xf32>
    %694 = stablehlo.broadcast_in_dim %686, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %695 = stablehlo.broadcast_in_dim %693, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %696 = stablehlo.broadcast_in_dim %694, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %697 = stablehlo.subtract %682, %696 : tensor<2x14x14x256xf32>
    %cst_155 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %698 = stablehlo.broadcast_in_dim %cst_155, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %699 = stablehlo.add %695, %698 : tensor<1x1x1x256xf32>
    %700 = stablehlo.rsqrt %699 : tensor<1x1x1x256xf32>
    %701 = stablehlo.reshape %arg131 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %702 = stablehlo.multiply %700, %701 : tensor<1x1x1x256xf32>
    %703 = stablehlo.broadcast_in_dim %702, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %704 = stablehlo.multiply %697, %703 : tensor<2x14x14x256xf32>
    %705 = stablehlo.reshape %arg130 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %706 = stablehlo.broadcast_in_dim %705, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %707 = stablehlo.add %704, %706 : tensor<2x14x14x256xf32>
    %708 = call @relu_6(%707) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %709 = stablehlo.convolution(%708, %arg138) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<1x1x256x1024xf32>) -> tensor<2x14x14x1024xf32>
    %710 = chlo.square %709 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_156 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %711 = stablehlo.reduce(%709 init: %cst_156) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_157 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %712 = stablehlo.broadcast_in_dim %cst_157, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %713 = stablehlo.divide %711, %712 : tensor<1024xf32>
    %cst_158 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %714 = stablehlo.reduce(%710 init: %cst_158) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_159 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %715 = stablehlo.broadcast_in_dim %cst_159, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %716 = stablehlo.divide %714, %715 : tensor<1024xf32>
    %717 = chlo.square %713 : tensor<1024xf32> -> tensor<1024xf32>
    %718 = stablehlo.subtract %716, %717 : tensor<1024xf32>
    %cst_160 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %719 = stablehlo.broadcast_in_dim %cst_160, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %720 = stablehlo.maximum %719, %718 : tensor<1024xf32>
    %721 = stablehlo.broadcast_in_dim %713, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %722 = stablehlo.broadcast_in_dim %720, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %723 = stablehlo.broadcast_in_dim %721, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %724 = stablehlo.subtract %709, %723 : tensor<2x14x14x1024xf32>
    %cst_161 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %725 = stablehlo.broadcast_in_dim %cst_161, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %726 = stablehlo.add %722, %725 : tensor<1x1x1x1024xf32>
    %727 = stablehlo.rsqrt %726 : tensor<1x1x1x1024xf32>
    %728 = stablehlo.reshape %arg133 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %729 = stablehlo.multiply %727, %728 : tensor<1x1x1x1024xf32>
    %730 = stablehlo.broadcast_in_dim %729, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %731 = stablehlo.multiply %724, %730 : tensor<2x14x14x1024xf32>
    %732 = stablehlo.reshape %arg132 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %733 = stablehlo.broadcast_in_dim %732, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %734 = stablehlo.add %731, %733 : tensor<2x14x14x1024xf32>
    %735 = stablehlo.convolution(%654, %arg139) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x28x28x512xf32>, tensor<1x1x512x1024xf32>) -> tensor<2x14x14x1024xf32>
    %736 = chlo.square %735 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_162 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %737 = stablehlo.reduce(%735 init: %cst_162) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_163 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %738 = stablehlo.broadcast_in_dim %cst_163, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %739 = stablehlo.divide %737, %738 : tensor<1024xf32>
    %cst_164 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %740 = stablehlo.reduce(%736 init: %cst_164) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_165 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %741 = stablehlo.broadcast_in_dim %cst_165, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %742 = stablehlo.divide %740, %741 : tensor<1024xf32>
    %743 = chlo.square %739 : tensor<1024xf32> -> tensor<1024xf32>
    %744 = stablehlo.subtract %742, %743 : tensor<1024xf32>
    %cst_166 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %745 = stablehlo.broadcast_in_dim %cst_166, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %746 = stablehlo.maximum %745, %744 : tensor<1024xf32>
    %747 = stablehlo.broadcast_in_dim %739, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %748 = stablehlo.broadcast_in_dim %746, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %749 = stablehlo.broadcast_in_dim %747, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %750 = stablehlo.subtract %735, %749 : tensor<2x14x14x1024xf32>
    %cst_167 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %751 = stablehlo.broadcast_in_dim %cst_167, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %752 = stablehlo.add %748, %751 : tensor<1x1x1x1024xf32>
    %753 = stablehlo.rsqrt %752 : tensor<1x1x1x1024xf32>
    %754 = stablehlo.reshape %arg135 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %755 = stablehlo.multiply %753, %754 : tensor<1x1x1x1024xf32>
    %756 = stablehlo.broadcast_in_dim %755, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %757 = stablehlo.multiply %750, %756 : tensor<2x14x14x1024xf32>
    %758 = stablehlo.reshape %arg134 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %759 = stablehlo.broadcast_in_dim %758, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %760 = stablehlo.add %757, %759 : tensor<2x14x14x1024xf32>
    %761 = stablehlo.add %760, %734 : tensor<2x14x14x1024xf32>
    %762 = call @relu_7(%761) : (tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32>
    %763 = stablehlo.convolution(%762, %arg146) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x256xf32>) -> tensor<2x14x14x256xf32>
    %764 = chlo.square %763 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_168 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %765 = stablehlo.reduce(%763 init: %cst_168) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_169 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %766 = stablehlo.broadcast_in_dim %cst_169, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %767 = stablehlo.divide %765, %766 : tensor<256xf32>
    %cst_170 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %768 = stablehlo.reduce(%764 init: %cst_170) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_171 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %769 = stablehlo.broadcast_in_dim %cst_171, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %770 = stablehlo.divide %768, %769 : tensor<256xf32>
    %771 = chlo.square %767 : tensor<256xf32> -> tensor<256xf32>
    %772 = stablehlo.subtract %770, %771 : tensor<256xf32>
    %cst_172 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %773 = stablehlo.broadcast_in_dim %cst_172, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %774 = stablehlo.maximum %773, %772 : tensor<256xf32>
    %775 = stablehlo.broadcast_in_dim %767, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %776 = stablehlo.broadcast_in_dim %774, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %777 = stablehlo.broadcast_in_dim %775, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %778 = stablehlo.subtract %763, %777 : tensor<2x14x14x256xf32>
    %cst_173 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %779 = stablehlo.broadcast_in_dim %cst_173, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %780 = stablehlo.add %776, %779 : tensor<1x1x1x256xf32>
    %781 = stablehlo.rsqrt %780 : tensor<1x1x1x256xf32>
    %782 = stablehlo.reshape %arg141 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %783 = stablehlo.multiply %781, %782 : tensor<1x1x1x256xf32>
    %784 = stablehlo.broadcast_in_dim %783, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %785 = stablehlo.multiply %778, %784 : tensor<2x14x14x256xf32>
    %786 = stablehlo.reshape %arg140 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %787 = stablehlo.broadcast_in_dim %786, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %788 = stablehlo.add %785, %787 : tensor<2x14x14x256xf32>
    %789 = call @relu_6(%788) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %790 = stablehlo.convolution(%789, %arg147) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<3x3x256x256xf32>) -> tensor<2x14x14x256xf32>
    %791 = chlo.square %790 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_174 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %792 = stablehlo.reduce(%790 init: %cst_174) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_175 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %793 = stablehlo.broadcast_in_dim %cst_175, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %794 = stablehlo.divide %792, %793 : tensor<256xf32>
    %cst_176 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %795 = stablehlo.reduce(%791 init: %cst_176) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_177 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %796 = stablehlo.broadcast_in_dim %cst_177, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %797 = stablehlo.divide %795, %796 : tensor<256xf32>
    %798 = chlo.square %794 : tensor<256xf32> -> tensor<256xf32>
    %799 = stablehlo.subtract %797, %798 : tensor<256xf32>
    %cst_178 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %800 = stablehlo.broadcast_in_dim %cst_178, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %801 = stablehlo.maximum %800, %799 : tensor<256xf32>
    %802 = stablehlo.broadcast_in_dim %794, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %803 = stablehlo.broadcast_in_dim %801, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %804 = stablehlo.broadcast_in_dim %802, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %805 = stablehlo.subtract %790, %804 : tensor<2x14x14x256xf32>
    %cst_179 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %806 = stablehlo.broadcast_in_dim %cst_179, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %807 = stablehlo.add %803, %806 : tensor<1x1x1x256xf32>
    %808 = stablehlo.rsqrt %807 : tensor<1x1x1x256xf32>
    %809 = stablehlo.reshape %arg143 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %810 = stablehlo.multiply %808, %809 : tensor<1x1x1x256xf32>
    %811 = stablehlo.broadcast_in_dim %810, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %812 = stablehlo.multiply %805, %811 : tensor<2x14x14x256xf32>
    %813 = stablehlo.reshape %arg142 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %814 = stablehlo.broadcast_in_dim %813, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %815 = stablehlo.add %812, %814 : tensor<2x14x14x256xf32>
    %816 = call @relu_6(%815) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %817 = stablehlo.convolution(%816, %arg148) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<1x1x256x1024xf32>) -> tensor<2x14x14x1024xf32>
    %818 = chlo.square %817 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_180 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %819 = stablehlo.reduce(%817 init: %cst_180) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_181 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %820 = stablehlo.broadcast_in_dim %cst_181, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %821 = stablehlo.divide %819, %820 : tensor<1024xf32>
    %cst_182 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %822 = stablehlo.reduce(%818 init: %cst_182) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_183 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %823 = stablehlo.broadcast_in_dim %cst_183, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %824 = stablehlo.divide %822, %823 : tensor<1024xf32>
    %825 = chlo.square %821 : tensor<1024xf32> -> tensor<1024xf32>
    %826 = stablehlo.subtract %824, %825 : tensor<1024xf32>
    %cst_184 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %827 = stablehlo.broadcast_in_dim %cst_184, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %828 = stablehlo.maximum %827, %826 : tensor<1024xf32>
    %829 = stablehlo.broadcast_in_dim %821, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %830 = stablehlo.broadcast_in_dim %828, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %831 = stablehlo.broadcast_in_dim %829, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %832 = stablehlo.subtract %817, %831 : tensor<2x14x14x1024xf32>
    %cst_185 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %833 = stablehlo.broadcast_in_dim %cst_185, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %834 = stablehlo.add %830, %833 : tensor<1x1x1x1024xf32>
    %835 = stablehlo.rsqrt %834 : tensor<1x1x1x1024xf32>
    %836 = stablehlo.reshape %arg145 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %837 = stablehlo.multiply %835, %836 : tensor<1x1x1x1024xf32>
    %838 = stablehlo.broadcast_in_dim %837, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %839 = stablehlo.multiply %832, %838 : tensor<2x14x14x1024xf32>
    %840 = stablehlo.reshape %arg144 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %841 = stablehlo.broadcast_in_dim %840, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %842 = stablehlo.add %839, %841 : tensor<2x14x14x1024xf32>
    %843 = stablehlo.add %762, %842 : tensor<2x14x14x1024xf32>
    %844 = call @relu_7(%843) : (tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32>
    %845 = stablehlo.convolution(%844, %arg155) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x256xf32>) -> tensor<2x14x14x256xf32>
    %846 = chlo.square %845 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_186 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %847 = stablehlo.reduce(%845 init: %cst_186) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_187 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %848 = stablehlo.broadcast_in_dim %cst_187, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %849 = stablehlo.divide %847, %848 : tensor<256xf32>
    %cst_188 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %850 = stablehlo.reduce(%846 init: %cst_188) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_189 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %851 = stablehlo.broadcast_in_dim %cst_189, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %852 = stablehlo.divide %850, %851 : tensor<256xf32>
    %853 = chlo.square %849 : tensor<256xf32> -> tensor<256xf32>
    %854 = stablehlo.subtract %852, %853 : tensor<256xf32>
    %cst_190 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %855 = stablehlo.broadcast_in_dim %cst_190, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %856 = stablehlo.maximum %855, %854 : tensor<256xf32>
    %857 = stablehlo.broadcast_in_dim %849, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %858 = stablehlo.broadcast_in_dim %856, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %859 = stablehlo.broadcast_in_dim %857, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %860 = stablehlo.subtract %845, %859 : tensor<2x14x14x256xf32>
    %cst_191 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %861 = stablehlo.broadcast_in_dim %cst_191, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %862 = stablehlo.add %858, %861 : tensor<1x1x1x256xf32>
    %863 = stablehlo.rsqrt %862 : tensor<1x1x1x256xf32>
    %864 = stablehlo.reshape %arg150 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %865 = stablehlo.multiply %863, %864 : tensor<1x1x1x256xf32>
    %866 = stablehlo.broadcast_in_dim %865, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %867 = stablehlo.multiply %860, %866 : tensor<2x14x14x256xf32>
    %868 = stablehlo.reshape %arg149 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %869 = stablehlo.broadcast_in_dim %868, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %870 = stablehlo.add %867, %869 : tensor<2x14x14x256xf32>
    %871 = call @relu_6(%870) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %872 = stablehlo.convolution(%871, %arg156) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<3x3x256x256xf32>) -> tensor<2x14x14x256xf32>
    %873 = chlo.square %872 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_192 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %874 = stablehlo.reduce(%872 init: %cst_192) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_193 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %875 = stablehlo.broadcast_in_dim %cst_193, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %876 = stablehlo.divide %874, %875 : tensor<256xf32>
    %cst_194 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %877 = stablehlo.reduce(%873 init: %cst_194) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_195 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %878 = stablehlo.broadcast_in_dim %cst_195, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %879 = stablehlo.divide %877, %878 : tensor<256xf32>
    %880 = chlo.square %876 : tensor<256xf32> -> tensor<256xf32>
    %881 = stablehlo.subtract %879, %880 : tensor<256xf32>
    %cst_196 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %882 = stablehlo.broadcast_in_dim %cst_196, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %883 = stablehlo.maximum %882, %881 : tensor<256xf32>
    %884 = stablehlo.broadcast_in_dim %876, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %885 = stablehlo.broadcast_in_dim %883, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %886 = stablehlo.broadcast_in_dim %884, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %887 = stablehlo.subtract %872, %886 : tensor<2x14x14x256xf32>
    %cst_197 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %888 = stablehlo.broadcast_in_dim %cst_197, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %889 = stablehlo.add %885, %888 : tensor<1x1x1x256xf32>
    %890 = stablehlo.rsqrt %889 : tensor<1x1x1x256xf32>
    %891 = stablehlo.reshape %arg152 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %892 = stablehlo.multiply %890, %891 : tensor<1x1x1x256xf32>
    %893 = stablehlo.broadcast_in_dim %892, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %894 = stablehlo.multiply %887, %893 : tensor<2x14x14x256xf32>
    %895 = stablehlo.reshape %arg151 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %896 = stablehlo.broadcast_in_dim %895, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %897 = stablehlo.add %894, %896 : tensor<2x14x14x256xf32>
    %898 = call @relu_6(%897) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %899 = stablehlo.convolution(%898, %arg157) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<1x1x256x1024xf32>) -> tensor<2x14x14x1024xf32>
    %900 = chlo.square %899 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_198 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %901 = stablehlo.reduce(%899 init: %cst_198) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_199 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %902 = stablehlo.broadcast_in_dim %cst_199, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %903 = stablehlo.divide %901, %902 : tensor<1024xf32>
    %cst_200 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %904 = stablehlo.reduce(%900 init: %cst_200) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_201 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %905 = stablehlo.broadcast_in_dim %cst_201, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %906 = stablehlo.divide %904, %905 : tensor<1024xf32>
    %907 = chlo.square %903 : tensor<1024xf32> -> tensor<1024xf32>
    %908 = stablehlo.subtract %906, %907 : tensor<1024xf32>
    %cst_202 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %909 = stablehlo.broadcast_in_dim %cst_202, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %910 = stablehlo.maximum %909, %908 : tensor<1024xf32>
    %911 = stablehlo.broadcast_in_dim %903, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %912 = stablehlo.broadcast_in_dim %910, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %913 = stablehlo.broadcast_in_dim %911, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %914 = stablehlo.subtract %899, %913 : tensor<2x14x14x1024xf32>
    %cst_203 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %915 = stablehlo.broadcast_in_dim %cst_203, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %916 = stablehlo.add %912, %915 : tensor<1x1x1x1024xf32>
    %917 = stablehlo.rsqrt %916 : tensor<1x1x1x1024xf32>
    %918 = stablehlo.reshape %arg154 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %919 = stablehlo.multiply %917, %918 : tensor<1x1x1x1024xf32>
    %920 = stablehlo.broadcast_in_dim %919, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %921 = stablehlo.multiply %914, %920 : tensor<2x14x14x1024xf32>
    %922 = stablehlo.reshape %arg153 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %923 = stablehlo.broadcast_in_dim %922, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %924 = stablehlo.add %921, %923 : tensor<2x14x14x1024xf32>
    %925 = stablehlo.add %844, %924 : tensor<2x14x14x1024xf32>
    %926 = call @relu_7(%925) : (tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32>
    %927 = stablehlo.convolution(%926, %arg29) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x256xf32>) -> tensor<2x14x14x256xf32>
    %928 = chlo.square %927 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_204 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %929 = stablehlo.reduce(%927 init: %cst_204) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_205 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %930 = stablehlo.broadcast_in_dim %cst_205, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %931 = stablehlo.divide %929, %930 : tensor<256xf32>
    %cst_206 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %932 = stablehlo.reduce(%928 init: %cst_206) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_207 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %933 = stablehlo.broadcast_in_dim %cst_207, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %934 = stablehlo.divide %932, %933 : tensor<256xf32>
    %935 = chlo.square %931 : tensor<256xf32> -> tensor<256xf32>
    %936 = stablehlo.subtract %934, %935 : tensor<256xf32>
    %cst_208 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %937 = stablehlo.broadcast_in_dim %cst_208, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %938 = stablehlo.maximum %937, %936 : tensor<256xf32>
    %939 = stablehlo.broadcast_in_dim %931, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %940 = stablehlo.broadcast_in_dim %938, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %941 = stablehlo.broadcast_in_dim %939, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %942 = stablehlo.subtract %927, %941 : tensor<2x14x14x256xf32>
    %cst_209 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %943 = stablehlo.broadcast_in_dim %cst_209, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %944 = stablehlo.add %940, %943 : tensor<1x1x1x256xf32>
    %945 = stablehlo.rsqrt %944 : tensor<1x1x1x256xf32>
    %946 = stablehlo.reshape %arg24 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %947 = stablehlo.multiply %945, %946 : tensor<1x1x1x256xf32>
    %948 = stablehlo.broadcast_in_dim %947, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %949 = stablehlo.multiply %942, %948 : tensor<2x14x14x256xf32>
    %950 = stablehlo.reshape %arg23 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %951 = stablehlo.broadcast_in_dim %950, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %952 = stablehlo.add %949, %951 : tensor<2x14x14x256xf32>
    %953 = call @relu_6(%952) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %954 = stablehlo.convolution(%953, %arg30) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<3x3x256x256xf32>) -> tensor<2x14x14x256xf32>
    %955 = chlo.square %954 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_210 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %956 = stablehlo.reduce(%954 init: %cst_210) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_211 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %957 = stablehlo.broadcast_in_dim %cst_211, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %958 = stablehlo.divide %956, %957 : tensor<256xf32>
    %cst_212 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %959 = stablehlo.reduce(%955 init: %cst_212) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_213 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %960 = stablehlo.broadcast_in_dim %cst_213, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %961 = stablehlo.divide %959, %960 : tensor<256xf32>
    %962 = chlo.square %958 : tensor<256xf32> -> tensor<256xf32>
    %963 = stablehlo.subtract %961, %962 : tensor<256xf32>
    %cst_214 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %964 = stablehlo.broadcast_in_dim %cst_214, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %965 = stablehlo.maximum %964, %963 : tensor<256xf32>
    %966 = stablehlo.broadcast_in_dim %958, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %967 = stablehlo.broadcast_in_dim %965, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %968 = stablehlo.broadcast_in_dim %966, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %969 = stablehlo.subtract %954, %968 : tensor<2x14x14x256xf32>
    %cst_215 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %970 = stablehlo.broadcast_in_dim %cst_215, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %971 = stablehlo.add %967, %970 : tensor<1x1x1x256xf32>
    %972 = stablehlo.rsqrt %971 : tensor<1x1x1x256xf32>
    %973 = stablehlo.reshape %arg26 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %974 = stablehlo.multiply %972, %973 : tensor<1x1x1x256xf32>
    %975 = stablehlo.broadcast_in_dim %974, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %976 = stablehlo.multiply %969, %975 : tensor<2x14x14x256xf32>
    %977 = stablehlo.reshape %arg25 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %978 = stablehlo.broadcast_in_dim %977, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %979 = stablehlo.add %976, %978 : tensor<2x14x14x256xf32>
    %980 = call @relu_6(%979) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %981 = stablehlo.convolution(%980, %arg31) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<1x1x256x1024xf32>) -> tensor<2x14x14x1024xf32>
    %982 = chlo.square %981 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_216 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %983 = stablehlo.reduce(%981 init: %cst_216) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_217 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %984 = stablehlo.broadcast_in_dim %cst_217, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %985 = stablehlo.divide %983, %984 : tensor<1024xf32>
    %cst_218 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %986 = stablehlo.reduce(%982 init: %cst_218) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_219 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %987 = stablehlo.broadcast_in_dim %cst_219, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %988 = stablehlo.divide %986, %987 : tensor<1024xf32>
    %989 = chlo.square %985 : tensor<1024xf32> -> tensor<1024xf32>
    %990 = stablehlo.subtract %988, %989 : tensor<1024xf32>
    %cst_220 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %991 = stablehlo.broadcast_in_dim %cst_220, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %992 = stablehlo.maximum %991, %990 : tensor<1024xf32>
    %993 = stablehlo.broadcast_in_dim %985, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %994 = stablehlo.broadcast_in_dim %992, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %995 = stablehlo.broadcast_in_dim %993, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %996 = stablehlo.subtract %981, %995 : tensor<2x14x14x1024xf32>
    %cst_221 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %997 = stablehlo.broadcast_in_dim %cst_221, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %998 = stablehlo.add %994, %997 : tensor<1x1x1x1024xf32>
    %999 = stablehlo.rsqrt %998 : tensor<1x1x1x1024xf32>
    %1000 = stablehlo.reshape %arg28 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1001 = stablehlo.multiply %999, %1000 : tensor<1x1x1x1024xf32>
    %1002 = stablehlo.broadcast_in_dim %1001, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1003 = stablehlo.multiply %996, %1002 : tensor<2x14x14x1024xf32>
    %1004 = stablehlo.reshape %arg27 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1005 = stablehlo.broadcast_in_dim %1004, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1006 = stablehlo.add %1003, %1005 : tensor<2x14x14x1024xf32>
    %1007 = stablehlo.add %926, %1006 : tensor<2x14x14x1024xf32>
    %1008 = call @relu_7(%1007) : (tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1009 = stablehlo.convolution(%1008, %arg38) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x256xf32>) -> tensor<2x14x14x256xf32>
    %1010 = chlo.square %1009 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_222 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1011 = stablehlo.reduce(%1009 init: %cst_222) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_223 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1012 = stablehlo.broadcast_in_dim %cst_223, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1013 = stablehlo.divide %1011, %1012 : tensor<256xf32>
    %cst_224 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1014 = stablehlo.reduce(%1010 init: %cst_224) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_225 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1015 = stablehlo.broadcast_in_dim %cst_225, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1016 = stablehlo.divide %1014, %1015 : tensor<256xf32>
    %1017 = chlo.square %1013 : tensor<256xf32> -> tensor<256xf32>
    %1018 = stablehlo.subtract %1016, %1017 : tensor<256xf32>
    %cst_226 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1019 = stablehlo.broadcast_in_dim %cst_226, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1020 = stablehlo.maximum %1019, %1018 : tensor<256xf32>
    %1021 = stablehlo.broadcast_in_dim %1013, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1022 = stablehlo.broadcast_in_dim %1020, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1023 = stablehlo.broadcast_in_dim %1021, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1024 = stablehlo.subtract %1009, %1023 : tensor<2x14x14x256xf32>
    %cst_227 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1025 = stablehlo.broadcast_in_dim %cst_227, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %1026 = stablehlo.add %1022, %1025 : tensor<1x1x1x256xf32>
    %1027 = stablehlo.rsqrt %1026 : tensor<1x1x1x256xf32>
    %1028 = stablehlo.reshape %arg33 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1029 = stablehlo.multiply %1027, %1028 : tensor<1x1x1x256xf32>
    %1030 = stablehlo.broadcast_in_dim %1029, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1031 = stablehlo.multiply %1024, %1030 : tensor<2x14x14x256xf32>
    %1032 = stablehlo.reshape %arg32 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1033 = stablehlo.broadcast_in_dim %1032, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1034 = stablehlo.add %1031, %1033 : tensor<2x14x14x256xf32>
    %1035 = call @relu_6(%1034) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %1036 = stablehlo.convolution(%1035, %arg39) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<3x3x256x256xf32>) -> tensor<2x14x14x256xf32>
    %1037 = chlo.square %1036 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_228 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1038 = stablehlo.reduce(%1036 init: %cst_228) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_229 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1039 = stablehlo.broadcast_in_dim %cst_229, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1040 = stablehlo.divide %1038, %1039 : tensor<256xf32>
    %cst_230 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1041 = stablehlo.reduce(%1037 init: %cst_230) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_231 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1042 = stablehlo.broadcast_in_dim %cst_231, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1043 = stablehlo.divide %1041, %1042 : tensor<256xf32>
    %1044 = chlo.square %1040 : tensor<256xf32> -> tensor<256xf32>
    %1045 = stablehlo.subtract %1043, %1044 : tensor<256xf32>
    %cst_232 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1046 = stablehlo.broadcast_in_dim %cst_232, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1047 = stablehlo.maximum %1046, %1045 : tensor<256xf32>
    %1048 = stablehlo.broadcast_in_dim %1040, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1049 = stablehlo.broadcast_in_dim %1047, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1050 = stablehlo.broadcast_in_dim %1048, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1051 = stablehlo.subtract %1036, %1050 : tensor<2x14x14x256xf32>
    %cst_233 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1052 = stablehlo.broadcast_in_dim %cst_233, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %1053 = stablehlo.add %1049, %1052 : tensor<1x1x1x256xf32>
    %1054 = stablehlo.rsqrt %1053 : tensor<1x1x1x256xf32>
    %1055 = stablehlo.reshape %arg35 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1056 = stablehlo.multiply %1054, %1055 : tensor<1x1x1x256xf32>
    %1057 = stablehlo.broadcast_in_dim %1056, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1058 = stablehlo.multiply %1051, %1057 : tensor<2x14x14x256xf32>
    %1059 = stablehlo.reshape %arg34 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1060 = stablehlo.broadcast_in_dim %1059, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1061 = stablehlo.add %1058, %1060 : tensor<2x14x14x256xf32>
    %1062 = call @relu_6(%1061) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %1063 = stablehlo.convolution(%1062, %arg40) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<1x1x256x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1064 = chlo.square %1063 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_234 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1065 = stablehlo.reduce(%1063 init: %cst_234) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_235 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1066 = stablehlo.broadcast_in_dim %cst_235, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %1067 = stablehlo.divide %1065, %1066 : tensor<1024xf32>
    %cst_236 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1068 = stablehlo.reduce(%1064 init: %cst_236) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_237 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1069 = stablehlo.broadcast_in_dim %cst_237, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %1070 = stablehlo.divide %1068, %1069 : tensor<1024xf32>
    %1071 = chlo.square %1067 : tensor<1024xf32> -> tensor<1024xf32>
    %1072 = stablehlo.subtract %1070, %1071 : tensor<1024xf32>
    %cst_238 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1073 = stablehlo.broadcast_in_dim %cst_238, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %1074 = stablehlo.maximum %1073, %1072 : tensor<1024xf32>
    %1075 = stablehlo.broadcast_in_dim %1067, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1076 = stablehlo.broadcast_in_dim %1074, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1077 = stablehlo.broadcast_in_dim %1075, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1078 = stablehlo.subtract %1063, %1077 : tensor<2x14x14x1024xf32>
    %cst_239 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1079 = stablehlo.broadcast_in_dim %cst_239, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %1080 = stablehlo.add %1076, %1079 : tensor<1x1x1x1024xf32>
    %1081 = stablehlo.rsqrt %1080 : tensor<1x1x1x1024xf32>
    %1082 = stablehlo.reshape %arg37 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1083 = stablehlo.multiply %1081, %1082 : tensor<1x1x1x1024xf32>
    %1084 = stablehlo.broadcast_in_dim %1083, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1085 = stablehlo.multiply %1078, %1084 : tensor<2x14x14x1024xf32>
    %1086 = stablehlo.reshape %arg36 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1087 = stablehlo.broadcast_in_dim %1086, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1088 = stablehlo.add %1085, %1087 : tensor<2x14x14x1024xf32>
    %1089 = stablehlo.add %1008, %1088 : tensor<2x14x14x1024xf32>
    %1090 = call @relu_7(%1089) : (tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1091 = stablehlo.convolution(%1090, %arg47) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x256xf32>) -> tensor<2x14x14x256xf32>
    %1092 = chlo.square %1091 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_240 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1093 = stablehlo.reduce(%1091 init: %cst_240) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_241 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1094 = stablehlo.broadcast_in_dim %cst_241, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1095 = stablehlo.divide %1093, %1094 : tensor<256xf32>
    %cst_242 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1096 = stablehlo.reduce(%1092 init: %cst_242) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_243 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1097 = stablehlo.broadcast_in_dim %cst_243, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1098 = stablehlo.divide %1096, %1097 : tensor<256xf32>
    %1099 = chlo.square %1095 : tensor<256xf32> -> tensor<256xf32>
    %1100 = stablehlo.subtract %1098, %1099 : tensor<256xf32>
    %cst_244 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1101 = stablehlo.broadcast_in_dim %cst_244, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1102 = stablehlo.maximum %1101, %1100 : tensor<256xf32>
    %1103 = stablehlo.broadcast_in_dim %1095, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1104 = stablehlo.broadcast_in_dim %1102, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1105 = stablehlo.broadcast_in_dim %1103, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1106 = stablehlo.subtract %1091, %1105 : tensor<2x14x14x256xf32>
    %cst_245 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1107 = stablehlo.broadcast_in_dim %cst_245, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %1108 = stablehlo.add %1104, %1107 : tensor<1x1x1x256xf32>
    %1109 = stablehlo.rsqrt %1108 : tensor<1x1x1x256xf32>
    %1110 = stablehlo.reshape %arg42 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1111 = stablehlo.multiply %1109, %1110 : tensor<1x1x1x256xf32>
    %1112 = stablehlo.broadcast_in_dim %1111, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1113 = stablehlo.multiply %1106, %1112 : tensor<2x14x14x256xf32>
    %1114 = stablehlo.reshape %arg41 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1115 = stablehlo.broadcast_in_dim %1114, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1116 = stablehlo.add %1113, %1115 : tensor<2x14x14x256xf32>
    %1117 = call @relu_6(%1116) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %1118 = stablehlo.convolution(%1117, %arg48) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<3x3x256x256xf32>) -> tensor<2x14x14x256xf32>
    %1119 = chlo.square %1118 : tensor<2x14x14x256xf32> -> tensor<2x14x14x256xf32>
    %cst_246 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1120 = stablehlo.reduce(%1118 init: %cst_246) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_247 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1121 = stablehlo.broadcast_in_dim %cst_247, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1122 = stablehlo.divide %1120, %1121 : tensor<256xf32>
    %cst_248 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1123 = stablehlo.reduce(%1119 init: %cst_248) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x256xf32>, tensor<f32>) -> tensor<256xf32>
    %cst_249 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1124 = stablehlo.broadcast_in_dim %cst_249, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1125 = stablehlo.divide %1123, %1124 : tensor<256xf32>
    %1126 = chlo.square %1122 : tensor<256xf32> -> tensor<256xf32>
    %1127 = stablehlo.subtract %1125, %1126 : tensor<256xf32>
    %cst_250 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1128 = stablehlo.broadcast_in_dim %cst_250, dims = [] : (tensor<f32>) -> tensor<256xf32>
    %1129 = stablehlo.maximum %1128, %1127 : tensor<256xf32>
    %1130 = stablehlo.broadcast_in_dim %1122, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1131 = stablehlo.broadcast_in_dim %1129, dims = [3] : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1132 = stablehlo.broadcast_in_dim %1130, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1133 = stablehlo.subtract %1118, %1132 : tensor<2x14x14x256xf32>
    %cst_251 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1134 = stablehlo.broadcast_in_dim %cst_251, dims = [] : (tensor<f32>) -> tensor<1x1x1x256xf32>
    %1135 = stablehlo.add %1131, %1134 : tensor<1x1x1x256xf32>
    %1136 = stablehlo.rsqrt %1135 : tensor<1x1x1x256xf32>
    %1137 = stablehlo.reshape %arg44 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1138 = stablehlo.multiply %1136, %1137 : tensor<1x1x1x256xf32>
    %1139 = stablehlo.broadcast_in_dim %1138, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1140 = stablehlo.multiply %1133, %1139 : tensor<2x14x14x256xf32>
    %1141 = stablehlo.reshape %arg43 : (tensor<256xf32>) -> tensor<1x1x1x256xf32>
    %1142 = stablehlo.broadcast_in_dim %1141, dims = [0, 1, 2, 3] : (tensor<1x1x1x256xf32>) -> tensor<2x14x14x256xf32>
    %1143 = stablehlo.add %1140, %1142 : tensor<2x14x14x256xf32>
    %1144 = call @relu_6(%1143) : (tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32>
    %1145 = stablehlo.convolution(%1144, %arg49) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x256xf32>, tensor<1x1x256x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1146 = chlo.square %1145 : tensor<2x14x14x1024xf32> -> tensor<2x14x14x1024xf32>
    %cst_252 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1147 = stablehlo.reduce(%1145 init: %cst_252) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_253 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1148 = stablehlo.broadcast_in_dim %cst_253, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %1149 = stablehlo.divide %1147, %1148 : tensor<1024xf32>
    %cst_254 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1150 = stablehlo.reduce(%1146 init: %cst_254) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x1024xf32>, tensor<f32>) -> tensor<1024xf32>
    %cst_255 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1151 = stablehlo.broadcast_in_dim %cst_255, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %1152 = stablehlo.divide %1150, %1151 : tensor<1024xf32>
    %1153 = chlo.square %1149 : tensor<1024xf32> -> tensor<1024xf32>
    %1154 = stablehlo.subtract %1152, %1153 : tensor<1024xf32>
    %cst_256 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1155 = stablehlo.broadcast_in_dim %cst_256, dims = [] : (tensor<f32>) -> tensor<1024xf32>
    %1156 = stablehlo.maximum %1155, %1154 : tensor<1024xf32>
    %1157 = stablehlo.broadcast_in_dim %1149, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1158 = stablehlo.broadcast_in_dim %1156, dims = [3] : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1159 = stablehlo.broadcast_in_dim %1157, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1160 = stablehlo.subtract %1145, %1159 : tensor<2x14x14x1024xf32>
    %cst_257 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1161 = stablehlo.broadcast_in_dim %cst_257, dims = [] : (tensor<f32>) -> tensor<1x1x1x1024xf32>
    %1162 = stablehlo.add %1158, %1161 : tensor<1x1x1x1024xf32>
    %1163 = stablehlo.rsqrt %1162 : tensor<1x1x1x1024xf32>
    %1164 = stablehlo.reshape %arg46 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1165 = stablehlo.multiply %1163, %1164 : tensor<1x1x1x1024xf32>
    %1166 = stablehlo.broadcast_in_dim %1165, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1167 = stablehlo.multiply %1160, %1166 : tensor<2x14x14x1024xf32>
    %1168 = stablehlo.reshape %arg45 : (tensor<1024xf32>) -> tensor<1x1x1x1024xf32>
    %1169 = stablehlo.broadcast_in_dim %1168, dims = [0, 1, 2, 3] : (tensor<1x1x1x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1170 = stablehlo.add %1167, %1169 : tensor<2x14x14x1024xf32>
    %1171 = stablehlo.add %1090, %1170 : tensor<2x14x14x1024xf32>
    %1172 = call @relu_7(%1171) : (tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32>
    %1173 = stablehlo.convolution(%1172, %arg58) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x512xf32>) -> tensor<2x14x14x512xf32>
    %1174 = chlo.square %1173 : tensor<2x14x14x512xf32> -> tensor<2x14x14x512xf32>
    %cst_258 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1175 = stablehlo.reduce(%1173 init: %cst_258) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_259 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1176 = stablehlo.broadcast_in_dim %cst_259, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1177 = stablehlo.divide %1175, %1176 : tensor<512xf32>
    %cst_260 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1178 = stablehlo.reduce(%1174 init: %cst_260) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x14x14x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_261 = stablehlo.constant dense<3.920000e+02> : tensor<f32>
    %1179 = stablehlo.broadcast_in_dim %cst_261, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1180 = stablehlo.divide %1178, %1179 : tensor<512xf32>
    %1181 = chlo.square %1177 : tensor<512xf32> -> tensor<512xf32>
    %1182 = stablehlo.subtract %1180, %1181 : tensor<512xf32>
    %cst_262 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1183 = stablehlo.broadcast_in_dim %cst_262, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1184 = stablehlo.maximum %1183, %1182 : tensor<512xf32>
    %1185 = stablehlo.broadcast_in_dim %1177, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1186 = stablehlo.broadcast_in_dim %1184, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1187 = stablehlo.broadcast_in_dim %1185, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x14x14x512xf32>
    %1188 = stablehlo.subtract %1173, %1187 : tensor<2x14x14x512xf32>
    %cst_263 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1189 = stablehlo.broadcast_in_dim %cst_263, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %1190 = stablehlo.add %1186, %1189 : tensor<1x1x1x512xf32>
    %1191 = stablehlo.rsqrt %1190 : tensor<1x1x1x512xf32>
    %1192 = stablehlo.reshape %arg51 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1193 = stablehlo.multiply %1191, %1192 : tensor<1x1x1x512xf32>
    %1194 = stablehlo.broadcast_in_dim %1193, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x14x14x512xf32>
    %1195 = stablehlo.multiply %1188, %1194 : tensor<2x14x14x512xf32>
    %1196 = stablehlo.reshape %arg50 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1197 = stablehlo.broadcast_in_dim %1196, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x14x14x512xf32>
    %1198 = stablehlo.add %1195, %1197 : tensor<2x14x14x512xf32>
    %1199 = call @relu_8(%1198) : (tensor<2x14x14x512xf32>) -> tensor<2x14x14x512xf32>
    %1200 = stablehlo.convolution(%1199, %arg59) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x512xf32>, tensor<3x3x512x512xf32>) -> tensor<2x7x7x512xf32>
    %1201 = chlo.square %1200 : tensor<2x7x7x512xf32> -> tensor<2x7x7x512xf32>
    %cst_264 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1202 = stablehlo.reduce(%1200 init: %cst_264) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_265 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1203 = stablehlo.broadcast_in_dim %cst_265, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1204 = stablehlo.divide %1202, %1203 : tensor<512xf32>
    %cst_266 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1205 = stablehlo.reduce(%1201 init: %cst_266) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_267 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1206 = stablehlo.broadcast_in_dim %cst_267, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1207 = stablehlo.divide %1205, %1206 : tensor<512xf32>
    %1208 = chlo.square %1204 : tensor<512xf32> -> tensor<512xf32>
    %1209 = stablehlo.subtract %1207, %1208 : tensor<512xf32>
    %cst_268 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1210 = stablehlo.broadcast_in_dim %cst_268, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1211 = stablehlo.maximum %1210, %1209 : tensor<512xf32>
    %1212 = stablehlo.broadcast_in_dim %1204, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1213 = stablehlo.broadcast_in_dim %1211, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1214 = stablehlo.broadcast_in_dim %1212, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1215 = stablehlo.subtract %1200, %1214 : tensor<2x7x7x512xf32>
    %cst_269 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1216 = stablehlo.broadcast_in_dim %cst_269, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %1217 = stablehlo.add %1213, %1216 : tensor<1x1x1x512xf32>
    %1218 = stablehlo.rsqrt %1217 : tensor<1x1x1x512xf32>
    %1219 = stablehlo.reshape %arg53 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1220 = stablehlo.multiply %1218, %1219 : tensor<1x1x1x512xf32>
    %1221 = stablehlo.broadcast_in_dim %1220, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1222 = stablehlo.multiply %1215, %1221 : tensor<2x7x7x512xf32>
    %1223 = stablehlo.reshape %arg52 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1224 = stablehlo.broadcast_in_dim %1223, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1225 = stablehlo.add %1222, %1224 : tensor<2x7x7x512xf32>
    %1226 = call @relu_9(%1225) : (tensor<2x7x7x512xf32>) -> tensor<2x7x7x512xf32>
    %1227 = stablehlo.convolution(%1226, %arg60) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x512xf32>, tensor<1x1x512x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1228 = chlo.square %1227 : tensor<2x7x7x2048xf32> -> tensor<2x7x7x2048xf32>
    %cst_270 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1229 = stablehlo.reduce(%1227 init: %cst_270) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_271 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1230 = stablehlo.broadcast_in_dim %cst_271, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1231 = stablehlo.divide %1229, %1230 : tensor<2048xf32>
    %cst_272 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1232 = stablehlo.reduce(%1228 init: %cst_272) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_273 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1233 = stablehlo.broadcast_in_dim %cst_273, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1234 = stablehlo.divide %1232, %1233 : tensor<2048xf32>
    %1235 = chlo.square %1231 : tensor<2048xf32> -> tensor<2048xf32>
    %1236 = stablehlo.subtract %1234, %1235 : tensor<2048xf32>
    %cst_274 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1237 = stablehlo.broadcast_in_dim %cst_274, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1238 = stablehlo.maximum %1237, %1236 : tensor<2048xf32>
    %1239 = stablehlo.broadcast_in_dim %1231, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1240 = stablehlo.broadcast_in_dim %1238, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1241 = stablehlo.broadcast_in_dim %1239, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1242 = stablehlo.subtract %1227, %1241 : tensor<2x7x7x2048xf32>
    %cst_275 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1243 = stablehlo.broadcast_in_dim %cst_275, dims = [] : (tensor<f32>) -> tensor<1x1x1x2048xf32>
    %1244 = stablehlo.add %1240, %1243 : tensor<1x1x1x2048xf32>
    %1245 = stablehlo.rsqrt %1244 : tensor<1x1x1x2048xf32>
    %1246 = stablehlo.reshape %arg55 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1247 = stablehlo.multiply %1245, %1246 : tensor<1x1x1x2048xf32>
    %1248 = stablehlo.broadcast_in_dim %1247, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1249 = stablehlo.multiply %1242, %1248 : tensor<2x7x7x2048xf32>
    %1250 = stablehlo.reshape %arg54 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1251 = stablehlo.broadcast_in_dim %1250, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1252 = stablehlo.add %1249, %1251 : tensor<2x7x7x2048xf32>
    %1253 = stablehlo.convolution(%1172, %arg61) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x14x14x1024xf32>, tensor<1x1x1024x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1254 = chlo.square %1253 : tensor<2x7x7x2048xf32> -> tensor<2x7x7x2048xf32>
    %cst_276 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1255 = stablehlo.reduce(%1253 init: %cst_276) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_277 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1256 = stablehlo.broadcast_in_dim %cst_277, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1257 = stablehlo.divide %1255, %1256 : tensor<2048xf32>
    %cst_278 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1258 = stablehlo.reduce(%1254 init: %cst_278) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_279 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1259 = stablehlo.broadcast_in_dim %cst_279, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1260 = stablehlo.divide %1258, %1259 : tensor<2048xf32>
    %1261 = chlo.square %1257 : tensor<2048xf32> -> tensor<2048xf32>
    %1262 = stablehlo.subtract %1260, %1261 : tensor<2048xf32>
    %cst_280 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1263 = stablehlo.broadcast_in_dim %cst_280, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1264 = stablehlo.maximum %1263, %1262 : tensor<2048xf32>
    %1265 = stablehlo.broadcast_in_dim %1257, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1266 = stablehlo.broadcast_in_dim %1264, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1267 = stablehlo.broadcast_in_dim %1265, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1268 = stablehlo.subtract %1253, %1267 : tensor<2x7x7x2048xf32>
    %cst_281 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1269 = stablehlo.broadcast_in_dim %cst_281, dims = [] : (tensor<f32>) -> tensor<1x1x1x2048xf32>
    %1270 = stablehlo.add %1266, %1269 : tensor<1x1x1x2048xf32>
    %1271 = stablehlo.rsqrt %1270 : tensor<1x1x1x2048xf32>
    %1272 = stablehlo.reshape %arg57 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1273 = stablehlo.multiply %1271, %1272 : tensor<1x1x1x2048xf32>
    %1274 = stablehlo.broadcast_in_dim %1273, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1275 = stablehlo.multiply %1268, %1274 : tensor<2x7x7x2048xf32>
    %1276 = stablehlo.reshape %arg56 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1277 = stablehlo.broadcast_in_dim %1276, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1278 = stablehlo.add %1275, %1277 : tensor<2x7x7x2048xf32>
    %1279 = stablehlo.add %1278, %1252 : tensor<2x7x7x2048xf32>
    %1280 = call @relu_10(%1279) : (tensor<2x7x7x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1281 = stablehlo.convolution(%1280, %arg68) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x2048xf32>, tensor<1x1x2048x512xf32>) -> tensor<2x7x7x512xf32>
    %1282 = chlo.square %1281 : tensor<2x7x7x512xf32> -> tensor<2x7x7x512xf32>
    %cst_282 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1283 = stablehlo.reduce(%1281 init: %cst_282) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_283 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1284 = stablehlo.broadcast_in_dim %cst_283, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1285 = stablehlo.divide %1283, %1284 : tensor<512xf32>
    %cst_284 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1286 = stablehlo.reduce(%1282 init: %cst_284) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_285 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1287 = stablehlo.broadcast_in_dim %cst_285, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1288 = stablehlo.divide %1286, %1287 : tensor<512xf32>
    %1289 = chlo.square %1285 : tensor<512xf32> -> tensor<512xf32>
    %1290 = stablehlo.subtract %1288, %1289 : tensor<512xf32>
    %cst_286 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1291 = stablehlo.broadcast_in_dim %cst_286, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1292 = stablehlo.maximum %1291, %1290 : tensor<512xf32>
    %1293 = stablehlo.broadcast_in_dim %1285, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1294 = stablehlo.broadcast_in_dim %1292, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1295 = stablehlo.broadcast_in_dim %1293, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1296 = stablehlo.subtract %1281, %1295 : tensor<2x7x7x512xf32>
    %cst_287 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1297 = stablehlo.broadcast_in_dim %cst_287, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %1298 = stablehlo.add %1294, %1297 : tensor<1x1x1x512xf32>
    %1299 = stablehlo.rsqrt %1298 : tensor<1x1x1x512xf32>
    %1300 = stablehlo.reshape %arg63 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1301 = stablehlo.multiply %1299, %1300 : tensor<1x1x1x512xf32>
    %1302 = stablehlo.broadcast_in_dim %1301, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1303 = stablehlo.multiply %1296, %1302 : tensor<2x7x7x512xf32>
    %1304 = stablehlo.reshape %arg62 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1305 = stablehlo.broadcast_in_dim %1304, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1306 = stablehlo.add %1303, %1305 : tensor<2x7x7x512xf32>
    %1307 = call @relu_9(%1306) : (tensor<2x7x7x512xf32>) -> tensor<2x7x7x512xf32>
    %1308 = stablehlo.convolution(%1307, %arg69) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x512xf32>, tensor<3x3x512x512xf32>) -> tensor<2x7x7x512xf32>
    %1309 = chlo.square %1308 : tensor<2x7x7x512xf32> -> tensor<2x7x7x512xf32>
    %cst_288 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1310 = stablehlo.reduce(%1308 init: %cst_288) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_289 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1311 = stablehlo.broadcast_in_dim %cst_289, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1312 = stablehlo.divide %1310, %1311 : tensor<512xf32>
    %cst_290 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1313 = stablehlo.reduce(%1309 init: %cst_290) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_291 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1314 = stablehlo.broadcast_in_dim %cst_291, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1315 = stablehlo.divide %1313, %1314 : tensor<512xf32>
    %1316 = chlo.square %1312 : tensor<512xf32> -> tensor<512xf32>
    %1317 = stablehlo.subtract %1315, %1316 : tensor<512xf32>
    %cst_292 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1318 = stablehlo.broadcast_in_dim %cst_292, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1319 = stablehlo.maximum %1318, %1317 : tensor<512xf32>
    %1320 = stablehlo.broadcast_in_dim %1312, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1321 = stablehlo.broadcast_in_dim %1319, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1322 = stablehlo.broadcast_in_dim %1320, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1323 = stablehlo.subtract %1308, %1322 : tensor<2x7x7x512xf32>
    %cst_293 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1324 = stablehlo.broadcast_in_dim %cst_293, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %1325 = stablehlo.add %1321, %1324 : tensor<1x1x1x512xf32>
    %1326 = stablehlo.rsqrt %1325 : tensor<1x1x1x512xf32>
    %1327 = stablehlo.reshape %arg65 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1328 = stablehlo.multiply %1326, %1327 : tensor<1x1x1x512xf32>
    %1329 = stablehlo.broadcast_in_dim %1328, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1330 = stablehlo.multiply %1323, %1329 : tensor<2x7x7x512xf32>
    %1331 = stablehlo.reshape %arg64 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1332 = stablehlo.broadcast_in_dim %1331, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1333 = stablehlo.add %1330, %1332 : tensor<2x7x7x512xf32>
    %1334 = call @relu_9(%1333) : (tensor<2x7x7x512xf32>) -> tensor<2x7x7x512xf32>
    %1335 = stablehlo.convolution(%1334, %arg70) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x512xf32>, tensor<1x1x512x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1336 = chlo.square %1335 : tensor<2x7x7x2048xf32> -> tensor<2x7x7x2048xf32>
    %cst_294 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1337 = stablehlo.reduce(%1335 init: %cst_294) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_295 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1338 = stablehlo.broadcast_in_dim %cst_295, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1339 = stablehlo.divide %1337, %1338 : tensor<2048xf32>
    %cst_296 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1340 = stablehlo.reduce(%1336 init: %cst_296) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_297 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1341 = stablehlo.broadcast_in_dim %cst_297, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1342 = stablehlo.divide %1340, %1341 : tensor<2048xf32>
    %1343 = chlo.square %1339 : tensor<2048xf32> -> tensor<2048xf32>
    %1344 = stablehlo.subtract %1342, %1343 : tensor<2048xf32>
    %cst_298 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1345 = stablehlo.broadcast_in_dim %cst_298, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1346 = stablehlo.maximum %1345, %1344 : tensor<2048xf32>
    %1347 = stablehlo.broadcast_in_dim %1339, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1348 = stablehlo.broadcast_in_dim %1346, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1349 = stablehlo.broadcast_in_dim %1347, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1350 = stablehlo.subtract %1335, %1349 : tensor<2x7x7x2048xf32>
    %cst_299 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1351 = stablehlo.broadcast_in_dim %cst_299, dims = [] : (tensor<f32>) -> tensor<1x1x1x2048xf32>
    %1352 = stablehlo.add %1348, %1351 : tensor<1x1x1x2048xf32>
    %1353 = stablehlo.rsqrt %1352 : tensor<1x1x1x2048xf32>
    %1354 = stablehlo.reshape %arg67 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1355 = stablehlo.multiply %1353, %1354 : tensor<1x1x1x2048xf32>
    %1356 = stablehlo.broadcast_in_dim %1355, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1357 = stablehlo.multiply %1350, %1356 : tensor<2x7x7x2048xf32>
    %1358 = stablehlo.reshape %arg66 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1359 = stablehlo.broadcast_in_dim %1358, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1360 = stablehlo.add %1357, %1359 : tensor<2x7x7x2048xf32>
    %1361 = stablehlo.add %1280, %1360 : tensor<2x7x7x2048xf32>
    %1362 = call @relu_10(%1361) : (tensor<2x7x7x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1363 = stablehlo.convolution(%1362, %arg77) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x2048xf32>, tensor<1x1x2048x512xf32>) -> tensor<2x7x7x512xf32>
    %1364 = chlo.square %1363 : tensor<2x7x7x512xf32> -> tensor<2x7x7x512xf32>
    %cst_300 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1365 = stablehlo.reduce(%1363 init: %cst_300) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_301 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1366 = stablehlo.broadcast_in_dim %cst_301, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1367 = stablehlo.divide %1365, %1366 : tensor<512xf32>
    %cst_302 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1368 = stablehlo.reduce(%1364 init: %cst_302) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_303 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1369 = stablehlo.broadcast_in_dim %cst_303, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1370 = stablehlo.divide %1368, %1369 : tensor<512xf32>
    %1371 = chlo.square %1367 : tensor<512xf32> -> tensor<512xf32>
    %1372 = stablehlo.subtract %1370, %1371 : tensor<512xf32>
    %cst_304 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1373 = stablehlo.broadcast_in_dim %cst_304, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1374 = stablehlo.maximum %1373, %1372 : tensor<512xf32>
    %1375 = stablehlo.broadcast_in_dim %1367, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1376 = stablehlo.broadcast_in_dim %1374, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1377 = stablehlo.broadcast_in_dim %1375, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1378 = stablehlo.subtract %1363, %1377 : tensor<2x7x7x512xf32>
    %cst_305 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1379 = stablehlo.broadcast_in_dim %cst_305, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %1380 = stablehlo.add %1376, %1379 : tensor<1x1x1x512xf32>
    %1381 = stablehlo.rsqrt %1380 : tensor<1x1x1x512xf32>
    %1382 = stablehlo.reshape %arg72 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1383 = stablehlo.multiply %1381, %1382 : tensor<1x1x1x512xf32>
    %1384 = stablehlo.broadcast_in_dim %1383, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1385 = stablehlo.multiply %1378, %1384 : tensor<2x7x7x512xf32>
    %1386 = stablehlo.reshape %arg71 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1387 = stablehlo.broadcast_in_dim %1386, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1388 = stablehlo.add %1385, %1387 : tensor<2x7x7x512xf32>
    %1389 = call @relu_9(%1388) : (tensor<2x7x7x512xf32>) -> tensor<2x7x7x512xf32>
    %1390 = stablehlo.convolution(%1389, %arg78) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x512xf32>, tensor<3x3x512x512xf32>) -> tensor<2x7x7x512xf32>
    %1391 = chlo.square %1390 : tensor<2x7x7x512xf32> -> tensor<2x7x7x512xf32>
    %cst_306 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1392 = stablehlo.reduce(%1390 init: %cst_306) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_307 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1393 = stablehlo.broadcast_in_dim %cst_307, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1394 = stablehlo.divide %1392, %1393 : tensor<512xf32>
    %cst_308 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1395 = stablehlo.reduce(%1391 init: %cst_308) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x512xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_309 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1396 = stablehlo.broadcast_in_dim %cst_309, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1397 = stablehlo.divide %1395, %1396 : tensor<512xf32>
    %1398 = chlo.square %1394 : tensor<512xf32> -> tensor<512xf32>
    %1399 = stablehlo.subtract %1397, %1398 : tensor<512xf32>
    %cst_310 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1400 = stablehlo.broadcast_in_dim %cst_310, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %1401 = stablehlo.maximum %1400, %1399 : tensor<512xf32>
    %1402 = stablehlo.broadcast_in_dim %1394, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1403 = stablehlo.broadcast_in_dim %1401, dims = [3] : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1404 = stablehlo.broadcast_in_dim %1402, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1405 = stablehlo.subtract %1390, %1404 : tensor<2x7x7x512xf32>
    %cst_311 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1406 = stablehlo.broadcast_in_dim %cst_311, dims = [] : (tensor<f32>) -> tensor<1x1x1x512xf32>
    %1407 = stablehlo.add %1403, %1406 : tensor<1x1x1x512xf32>
    %1408 = stablehlo.rsqrt %1407 : tensor<1x1x1x512xf32>
    %1409 = stablehlo.reshape %arg74 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1410 = stablehlo.multiply %1408, %1409 : tensor<1x1x1x512xf32>
    %1411 = stablehlo.broadcast_in_dim %1410, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1412 = stablehlo.multiply %1405, %1411 : tensor<2x7x7x512xf32>
    %1413 = stablehlo.reshape %arg73 : (tensor<512xf32>) -> tensor<1x1x1x512xf32>
    %1414 = stablehlo.broadcast_in_dim %1413, dims = [0, 1, 2, 3] : (tensor<1x1x1x512xf32>) -> tensor<2x7x7x512xf32>
    %1415 = stablehlo.add %1412, %1414 : tensor<2x7x7x512xf32>
    %1416 = call @relu_9(%1415) : (tensor<2x7x7x512xf32>) -> tensor<2x7x7x512xf32>
    %1417 = stablehlo.convolution(%1416, %arg79) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x7x7x512xf32>, tensor<1x1x512x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1418 = chlo.square %1417 : tensor<2x7x7x2048xf32> -> tensor<2x7x7x2048xf32>
    %cst_312 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1419 = stablehlo.reduce(%1417 init: %cst_312) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_313 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1420 = stablehlo.broadcast_in_dim %cst_313, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1421 = stablehlo.divide %1419, %1420 : tensor<2048xf32>
    %cst_314 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1422 = stablehlo.reduce(%1418 init: %cst_314) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %cst_315 = stablehlo.constant dense<9.800000e+01> : tensor<f32>
    %1423 = stablehlo.broadcast_in_dim %cst_315, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1424 = stablehlo.divide %1422, %1423 : tensor<2048xf32>
    %1425 = chlo.square %1421 : tensor<2048xf32> -> tensor<2048xf32>
    %1426 = stablehlo.subtract %1424, %1425 : tensor<2048xf32>
    %cst_316 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1427 = stablehlo.broadcast_in_dim %cst_316, dims = [] : (tensor<f32>) -> tensor<2048xf32>
    %1428 = stablehlo.maximum %1427, %1426 : tensor<2048xf32>
    %1429 = stablehlo.broadcast_in_dim %1421, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1430 = stablehlo.broadcast_in_dim %1428, dims = [3] : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1431 = stablehlo.broadcast_in_dim %1429, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1432 = stablehlo.subtract %1417, %1431 : tensor<2x7x7x2048xf32>
    %cst_317 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %1433 = stablehlo.broadcast_in_dim %cst_317, dims = [] : (tensor<f32>) -> tensor<1x1x1x2048xf32>
    %1434 = stablehlo.add %1430, %1433 : tensor<1x1x1x2048xf32>
    %1435 = stablehlo.rsqrt %1434 : tensor<1x1x1x2048xf32>
    %1436 = stablehlo.reshape %arg76 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1437 = stablehlo.multiply %1435, %1436 : tensor<1x1x1x2048xf32>
    %1438 = stablehlo.broadcast_in_dim %1437, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1439 = stablehlo.multiply %1432, %1438 : tensor<2x7x7x2048xf32>
    %1440 = stablehlo.reshape %arg75 : (tensor<2048xf32>) -> tensor<1x1x1x2048xf32>
    %1441 = stablehlo.broadcast_in_dim %1440, dims = [0, 1, 2, 3] : (tensor<1x1x1x2048xf32>) -> tensor<2x7x7x2048xf32>
    %1442 = stablehlo.add %1439, %1441 : tensor<2x7x7x2048xf32>
    %1443 = stablehlo.add %1362, %1442 : tensor<2x7x7x2048xf32>
    %1444 = call @relu_10(%1443) : (tensor<2x7x7x2048xf32>) -> tensor<2x7x7x2048xf32>
    %cst_318 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1445 = stablehlo.reduce(%1444 init: %cst_318) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x7x7x2048xf32>, tensor<f32>) -> tensor<2x2048xf32>
    %cst_319 = stablehlo.constant dense<4.900000e+01> : tensor<f32>
    %1446 = stablehlo.broadcast_in_dim %cst_319, dims = [] : (tensor<f32>) -> tensor<2x2048xf32>
    %1447 = stablehlo.divide %1445, %1446 : tensor<2x2048xf32>
    %1448 = stablehlo.dot_general %1447, %arg160, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x2048xf32>, tensor<2048x1000xf32>) -> tensor<2x1000xf32>
    %1449 = stablehlo.reshape %arg159 : (tensor<1000xf32>) -> tensor<1x1000xf32>
    %1450 = stablehlo.broadcast_in_dim %1449, dims = [0, 1] : (tensor<1x1000xf32>) -> tensor<2x1000xf32>
    %1451 = stablehlo.add %1448, %1450 : tensor<2x1000xf32>
    return %1451 : tensor<2x1000xf32>
  }
  func.func private @relu(%arg0: tensor<2x112x112x64xf32>) -> tensor<2x112x112x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x112x112x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x112x112x64xf32>
    return %1 : tensor<2x112x112x64xf32>
  }
  func.func private @relu_0(%arg0: tensor<2x56x56x64xf32>) -> tensor<2x56x56x64xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x56x56x64xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x56x56x64xf32>
    return %1 : tensor<2x56x56x64xf32>
  }
  func.func private @relu_1(%arg0: tensor<2x56x56x256xf32>) -> tensor<2x56x56x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x56x56x256xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x56x56x256xf32>
    return %1 : tensor<2x56x56x256xf32>
  }
  func.func private @relu_2(%arg0: tensor<2x56x56x128xf32>) -> tensor<2x56x56x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x56x56x128xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x56x56x128xf32>
    return %1 : tensor<2x56x56x128xf32>
  }
  func.func private @relu_3(%arg0: tensor<2x28x28x128xf32>) -> tensor<2x28x28x128xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x28x28x128xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x28x28x128xf32>
    return %1 : tensor<2x28x28x128xf32>
  }
  func.func private @relu_4(%arg0: tensor<2x28x28x512xf32>) -> tensor<2x28x28x512xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x28x28x512xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x28x28x512xf32>
    return %1 : tensor<2x28x28x512xf32>
  }
  func.func private @relu_5(%arg0: tensor<2x28x28x256xf32>) -> tensor<2x28x28x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x28x28x256xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x28x28x256xf32>
    return %1 : tensor<2x28x28x256xf32>
  }
  func.func private @relu_6(%arg0: tensor<2x14x14x256xf32>) -> tensor<2x14x14x256xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x14x14x256xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x14x14x256xf32>
    return %1 : tensor<2x14x14x256xf32>
  }
  func.func private @relu_7(%arg0: tensor<2x14x14x1024xf32>) -> tensor<2x14x14x1024xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x14x14x1024xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x14x14x1024xf32>
    return %1 : tensor<2x14x14x1024xf32>
  }
  func.func private @relu_8(%arg0: tensor<2x14x14x512xf32>) -> tensor<2x14x14x512xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x14x14x512xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x14x14x512xf32>
    return %1 : tensor<2x14x14x512xf32>
  }
  func.func private @relu_9(%arg0: tensor<2x7x7x512xf32>) -> tensor<2x7x7x512xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x7x7x512xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x7x7x512xf32>
    return %1 : tensor<2x7x7x512xf32>
  }
  func.func private @relu_10(%arg0: tensor<2x7x7x2048xf32>) -> tensor<2x7x7x2048xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x7x7x2048xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x7x7x2048xf32>
    return %1 : tensor<2x7x7x2048xf32>
  }
}
