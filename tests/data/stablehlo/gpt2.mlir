module @jit_gpt attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<768xf32> loc("params['layers'][0]['down']['b']"), %arg1: tensor<3072x768xf32> loc("params['layers'][0]['down']['w']"), %arg2: tensor<768xf32> loc("params['layers'][0]['ln1']['b']"), %arg3: tensor<768xf32> loc("params['layers'][0]['ln1']['g']"), %arg4: tensor<768xf32> loc("params['layers'][0]['ln2']['b']"), %arg5: tensor<768xf32> loc("params['layers'][0]['ln2']['g']"), %arg6: tensor<768xf32> loc("params['layers'][0]['out']['b']"), %arg7: tensor<768x768xf32> loc("params['layers'][0]['out']['w']"), %arg8: tensor<2304xf32> loc("params['layers'][0]['qkv']['b']"), %arg9: tensor<768x2304xf32> loc("params['layers'][0]['qkv']['w']"), %arg10: tensor<3072xf32> loc("params['layers'][0]['up']['b']"), %arg11: tensor<768x3072xf32> loc("params['layers'][0]['up']['w']"), %arg12: tensor<768xf32> loc("params['layers'][1]['down']['b']"), %arg13: tensor<3072x768xf32> loc("params['layers'][1]['down']['w']"), %arg14: tensor<768xf32> loc("params['layers'][1]['ln1']['b']"), %arg15: tensor<768xf32> loc("params['layers'][1]['ln1']['g']"), %arg16: tensor<768xf32> loc("params['layers'][1]['ln2']['b']"), %arg17: tensor<768xf32> loc("params['layers'][1]['ln2']['g']"), %arg18: tensor<768xf32> loc("params['layers'][1]['out']['b']"), %arg19: tensor<768x768xf32> loc("params['layers'][1]['out']['w']"), %arg20: tensor<2304xf32> loc("params['layers'][1]['qkv']['b']"), %arg21: tensor<768x2304xf32> loc("params['layers'][1]['qkv']['w']"), %arg22: tensor<3072xf32> loc("params['layers'][1]['up']['b']"), %arg23: tensor<768x3072xf32> loc("params['layers'][1]['up']['w']"), %arg24: tensor<768xf32> loc("params['layers'][2]['down']['b']"), %arg25: tensor<3072x768xf32> loc("params['layers'][2]['down']['w']"), %arg26: tensor<768xf32> loc("params['layers'][2]['ln1']['b']"), %arg27: tensor<768xf32> loc("params['layers'][2]['ln1']['g']"), %arg28: tensor<768xf32> loc("params['layers'][2]['ln2']['b']"), %arg29: tensor<768xf32> loc("params['layers'][2]['ln2']['g']"), %arg30: tensor<768xf32> loc("params['layers'][2]['out']['b']"), %arg31: tensor<768x768xf32> loc("params['layers'][2]['out']['w']"), %arg32: tensor<2304xf32> loc("params['layers'][2]['qkv']['b']"), %arg33: tensor<768x2304xf32> loc("params['layers'][2]['qkv']['w']"), %arg34: tensor<3072xf32> loc("params['layers'][2]['up']['b']"), %arg35: tensor<768x3072xf32> loc("params['layers'][2]['up']['w']"), %arg36: tensor<768xf32> loc("params['layers'][3]['down']['b']"), %arg37: tensor<3072x768xf32> loc("params['layers'][3]['down']['w']"), %arg38: tensor<768xf32> loc("params['layers'][3]['ln1']['b']"), %arg39: tensor<768xf32> loc("params['layers'][3]['ln1']['g']"), %arg40: tensor<768xf32> loc("params['layers'][3]['ln2']['b']"), %arg41: tensor<768xf32> loc("params['layers'][3]['ln2']['g']"), %arg42: tensor<768xf32> loc("params['layers'][3]['out']['b']"), %arg43: tensor<768x768xf32> loc("params['layers'][3]['out']['w']"), %arg44: tensor<2304xf32> loc("params['layers'][3]['qkv']['b']"), %arg45: tensor<768x2304xf32> loc("params['layers'][3]['qkv']['w']"), %arg46: tensor<3072xf32> loc("params['layers'][3]['up']['b']"), %arg47: tensor<768x3072xf32> loc("params['layers'][3]['up']['w']"), %arg48: tensor<768xf32> loc("params['layers'][4]['down']['b']"), %arg49: tensor<3072x768xf32> loc("params['layers'][4]['down']['w']"), %arg50: tensor<768xf32> loc("params['layers'][4]['ln1']['b']"), %arg51: tensor<768xf32> loc("params['layers'][4]['ln1']['g']"), %arg52: tensor<768xf32> loc("params['layers'][4]['ln2']['b']"), %arg53: tensor<768xf32> loc("params['layers'][4]['ln2']['g']"), %arg54: tensor<768xf32> loc("params['layers'][4]['out']['b']"), %arg55: tensor<768x768xf32> loc("params['layers'][4]['out']['w']"), %arg56: tensor<2304xf32> loc("params['layers'][4]['qkv']['b']"), %arg57: tensor<768x2304xf32> loc("params['layers'][4]['qkv']['w']"), %arg58: tensor<3072xf32> loc("params['layers'][4]['up']['b']"), %arg59: tensor<768x3072xf32> loc("params['layers'][4]['up']['w']"), %arg60: tensor<768xf32> loc("params['layers'][5]['down']['b']"), %arg61: tensor<3072x768xf32> loc("params['layers'][5]['down']['w']"), %arg62: tensor<768xf32> loc("params['layers'][5]['ln1']['b']"), %arg63: tensor<768xf32> loc("params['layers'][5]['ln1']['g']"), %arg64: tensor<768xf32> loc("params['layers'][5]['ln2']['b']"), %arg65: tensor<768xf32> loc("params['layers'][5]['ln2']['g']"), %arg66: tensor<768xf32> loc("params['layers'][5]['out']['b']"), %arg67: tensor<768x768xf32> loc("params['layers'][5]['out']['w']"), %arg68: tensor<2304xf32> loc("params['layers'][5]['qkv']['b']"), %arg69: tensor<768x2304xf32> loc("params['layers'][5]['qkv']['w']"), %arg70: tensor<3072xf32> loc("params['layers'][5]['up']['b']"), %arg71: tensor<768x3072xf32> loc("params['layers'][5]['up']['w']"), %arg72: tensor<768xf32> loc("params['layers'][6]['down']['b']"), %arg73: tensor<3072x768xf32> loc("params['layers'][6]['down']['w']"), %arg74: tensor<768xf32> loc("params['layers'][6]['ln1']['b']"), %arg75: tensor<768xf32> loc("params['layers'][6]['ln1']['g']"), %arg76: tensor<768xf32> loc("params['layers'][6]['ln2']['b']"), %arg77: tensor<768xf32> loc("params['layers'][6]['ln2']['g']"), %arg78: tensor<768xf32> loc("params['layers'][6]['out']['b']"), %arg79: tensor<768x768xf32> loc("params['layers'][6]['out']['w']"), %arg80: tensor<2304xf32> loc("params['layers'][6]['qkv']['b']"), %arg81: tensor<768x2304xf32> loc("params['layers'][6]['qkv']['w']"), %arg82: tensor<3072xf32> loc("params['layers'][6]['up']['b']"), %arg83: tensor<768x3072xf32> loc("params['layers'][6]['up']['w']"), %arg84: tensor<768xf32> loc("params['layers'][7]['down']['b']"), %arg85: tensor<3072x768xf32> loc("params['layers'][7]['down']['w']"), %arg86: tensor<768xf32> loc("params['layers'][7]['ln1']['b']"), %arg87: tensor<768xf32> loc("params['layers'][7]['ln1']['g']"), %arg88: tensor<768xf32> loc("params['layers'][7]['ln2']['b']"), %arg89: tensor<768xf32> loc("params['layers'][7]['ln2']['g']"), %arg90: tensor<768xf32> loc("params['layers'][7]['out']['b']"), %arg91: tensor<768x768xf32> loc("params['layers'][7]['out']['w']"), %arg92: tensor<2304xf32> loc("params['layers'][7]['qkv']['b']"), %arg93: tensor<768x2304xf32> loc("params['layers'][7]['qkv']['w']"), %arg94: tensor<3072xf32> loc("params['layers'][7]['up']['b']"), %arg95: tensor<768x3072xf32> loc("params['layers'][7]['up']['w']"), %arg96: tensor<768xf32> loc("params['layers'][8]['down']['b']"), %arg97: tensor<3072x768xf32> loc("params['layers'][8]['down']['w']"), %arg98: tensor<768xf32> loc("params['layers'][8]['ln1']['b']"), %arg99: tensor<768xf32> loc("params['layers'][8]['ln1']['g']"), %arg100: tensor<768xf32> loc("params['layers'][8]['ln2']['b']"), %arg101: tensor<768xf32> loc("params['layers'][8]['ln2']['g']"), %arg102: tensor<768xf32> loc("params['layers'][8]['out']['b']"), %arg103: tensor<768x768xf32> loc("params['layers'][8]['out']['w']"), %arg104: tensor<2304xf32> loc("params['layers'][8]['qkv']['b']"), %arg105: tensor<768x2304xf32> loc("params['layers'][8]['qkv']['w']"), %arg106: tensor<3072xf32> loc("params['layers'][8]['up']['b']"), %arg107: tensor<768x3072xf32> loc("params['layers'][8]['up']['w']"), %arg108: tensor<768xf32> loc("params['layers'][9]['down']['b']"), %arg109: tensor<3072x768xf32> loc("params['layers'][9]['down']['w']"), %arg110: tensor<768xf32> loc("params['layers'][9]['ln1']['b']"), %arg111: tensor<768xf32> loc("params['layers'][9]['ln1']['g']"), %arg112: tensor<768xf32> loc("params['layers'][9]['ln2']['b']"), %arg113: tensor<768xf32> loc("params['layers'][9]['ln2']['g']"), %arg114: tensor<768xf32> loc("params['layers'][9]['out']['b']"), %arg115: tensor<768x768xf32> loc("params['layers'][9]['out']['w']"), %arg116: tensor<2304xf32> loc("params['layers'][9]['qkv']['b']"), %arg117: tensor<768x2304xf32> loc("params['layers'][9]['qkv']['w']"), %arg118: tensor<3072xf32> loc("params['layers'][9]['up']['b']"), %arg119: tensor<768x3072xf32> loc("params['layers'][9]['up']['w']"), %arg120: tensor<768xf32> loc("params['layers'][10]['down']['b']"), %arg121: tensor<3072x768xf32> loc("params['layers'][10]['down']['w']"), %arg122: tensor<768xf32> loc("params['layers'][10]['ln1']['b']"), %arg123: tensor<768xf32> loc("params['layers'][10]['ln1']['g']"), %arg124: tensor<768xf32> loc("params['layers'][10]['ln2']['b']"), %arg125: tensor<768xf32> loc("params['layers'][10]['ln2']['g']"), %arg126: tensor<768xf32> loc("params['layers'][10]['out']['b']"), %arg127: tensor<768x768xf32> loc("params['layers'][10]['out']['w']"), %arg128: tensor<2304xf32> loc("params['layers'][10]['qkv']['b']"), %arg129: tensor<768x2304xf32> loc("params['layers'][10]['qkv']['w']"), %arg130: tensor<3072xf32> loc("params['layers'][10]['up']['b']"), %arg131: tensor<768x3072xf32> loc("params['layers'][10]['up']['w']"), %arg132: tensor<768xf32> loc("params['layers'][11]['down']['b']"), %arg133: tensor<3072x768xf32> loc("params['layers'][11]['down']['w']"), %arg134: tensor<768xf32> loc("params['layers'][11]['ln1']['b']"), %arg135: tensor<768xf32> loc("params['layers'][11]['ln1']['g']"), %arg136: tensor<768xf32> loc("params['layers'][11]['ln2']['b']"), %arg137: tensor<768xf32> loc("params['layers'][11]['ln2']['g']"), %arg138: tensor<768xf32> loc("params['layers'][11]['out']['b']"), %arg139: tensor<768x768xf32> loc("params['layers'][11]['out']['w']"), %arg140: tensor<2304xf32> loc("params['layers'][11]['qkv']['b']"), %arg141: tensor<768x2304xf32> loc("params['layers'][11]['qkv']['w']"), %arg142: tensor<3072xf32> loc("params['layers'][11]['up']['b']"), %arg143: tensor<768x3072xf32> loc("params['layers'][11]['up']['w']"), %arg144: tensor<768xf32> loc("params['ln']['b']"), %arg145: tensor<768xf32> loc("params['ln']['g']"), %arg146: tensor<1024x768xf32> loc("params['wpe']"), %arg147: tensor<50257x768xf32> loc("params['wte']"), %arg148: tensor<1x1024xi32> loc("tokens")) -> (tensor<1x1024x50257xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1x1024xi32>
    %1 = stablehlo.compare LT, %arg148, %0, SIGNED : (tensor<1x1024xi32>, tensor<1x1024xi32>) -> tensor<1x1024xi1>
    %c_0 = stablehlo.constant dense<50257> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1x1024xi32>
    %3 = stablehlo.add %arg148, %2 : tensor<1x1024xi32>
    %4 = stablehlo.select %1, %3, %arg148 : tensor<1x1024xi1>, tensor<1x1024xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<1x1024xi32>) -> tensor<1x1024x1xi32>
    %6 = "stablehlo.gather"(%arg147, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 768>}> : (tensor<50257x768xf32>, tensor<1x1024x1xi32>) -> tensor<1x1024x768xf32>
    %7 = stablehlo.broadcast_in_dim %arg146, dims = [1, 2] : (tensor<1024x768xf32>) -> tensor<1x1024x768xf32>
    %8 = stablehlo.add %6, %7 : tensor<1x1024x768xf32>
    %9 = call @layer(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %8) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %10 = call @layer(%arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %9) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %11 = call @layer(%arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %10) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %12 = call @layer(%arg36, %arg37, %arg38, %arg39, %arg40, %arg41, %arg42, %arg43, %arg44, %arg45, %arg46, %arg47, %11) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %13 = call @layer(%arg48, %arg49, %arg50, %arg51, %arg52, %arg53, %arg54, %arg55, %arg56, %arg57, %arg58, %arg59, %12) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %14 = call @layer(%arg60, %arg61, %arg62, %arg63, %arg64, %arg65, %arg66, %arg67, %arg68, %arg69, %arg70, %arg71, %13) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %15 = call @layer(%arg72, %arg73, %arg74, %arg75, %arg76, %arg77, %arg78, %arg79, %arg80, %arg81, %arg82, %arg83, %14) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %16 = call @layer(%arg84, %arg85, %arg86, %arg87, %arg88, %arg89, %arg90, %arg91, %arg92, %arg93, %arg94, %arg95, %15) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %17 = call @layer(%arg96, %arg97, %arg98, %arg99, %arg100, %arg101, %arg102, %arg103, %arg104, %arg105, %arg106, %arg107, %16) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %18 = call @layer(%arg108, %arg109, %arg110, %arg111, %arg112, %arg113, %arg114, %arg115, %arg116, %arg117, %arg118, %arg119, %17) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %19 = call @layer(%arg120, %arg121, %arg122, %arg123, %arg124, %arg125, %arg126, %arg127, %arg128, %arg129, %arg130, %arg131, %18) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %20 = call @layer(%arg132, %arg133, %arg134, %arg135, %arg136, %arg137, %arg138, %arg139, %arg140, %arg141, %arg142, %arg143, %19) : (tensor<768xf32>, tensor<3072x768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768xf32>, tensor<768x768xf32>, tensor<2304xf32>, tensor<768x2304xf32>, tensor<3072xf32>, tensor<768x3072xf32>, tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %21 = stablehlo.reduce(%20 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1x1024xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<1x1024xf32>) -> tensor<1x1024x1xf32>
    %cst_1 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %24 = stablehlo.divide %22, %23 : tensor<1x1024x1xf32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %26 = stablehlo.subtract %20, %25 : tensor<1x1024x768xf32>
    %27 = stablehlo.multiply %26, %26 : tensor<1x1024x768xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%27 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1x1024xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<1x1024xf32>) -> tensor<1x1024x1xf32>
    %cst_3 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %31 = stablehlo.divide %29, %30 : tensor<1x1024x1xf32>
    %32 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %33 = stablehlo.subtract %20, %32 : tensor<1x1024x768xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %34 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %35 = stablehlo.add %31, %34 : tensor<1x1024x1xf32>
    %36 = stablehlo.rsqrt %35 : tensor<1x1024x1xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %38 = stablehlo.multiply %33, %37 : tensor<1x1024x768xf32>
    %39 = stablehlo.broadcast_in_dim %arg145, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %41 = stablehlo.multiply %38, %40 : tensor<1x1024x768xf32>
    %42 = stablehlo.broadcast_in_dim %arg144, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %44 = stablehlo.add %41, %43 : tensor<1x1024x768xf32>
    %45 = stablehlo.transpose %arg147, dims = [1, 0] : (tensor<50257x768xf32>) -> tensor<768x50257xf32>
    %46 = stablehlo.dot_general %44, %45, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x768xf32>, tensor<768x50257xf32>) -> tensor<1x1024x50257xf32>
    return %46 : tensor<1x1024x50257xf32>
  }
  func.func private @layer(%arg0: tensor<768xf32>, %arg1: tensor<3072x768xf32>, %arg2: tensor<768xf32>, %arg3: tensor<768xf32>, %arg4: tensor<768xf32>, %arg5: tensor<768xf32>, %arg6: tensor<768xf32>, %arg7: tensor<768x768xf32>, %arg8: tensor<2304xf32>, %arg9: tensor<768x2304xf32>, %arg10: tensor<3072xf32>, %arg11: tensor<768x3072xf32>, %arg12: tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg12 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1x1024xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<1x1024xf32>) -> tensor<1x1024x1xf32>
    %cst_0 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<1x1024x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %5 = stablehlo.subtract %arg12, %4 : tensor<1x1024x768xf32>
    %6 = stablehlo.multiply %5, %5 : tensor<1x1024x768xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1x1024xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<1x1024xf32>) -> tensor<1x1024x1xf32>
    %cst_2 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %10 = stablehlo.divide %8, %9 : tensor<1x1024x1xf32>
    %11 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %12 = stablehlo.subtract %arg12, %11 : tensor<1x1024x768xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %14 = stablehlo.add %10, %13 : tensor<1x1024x1xf32>
    %15 = stablehlo.rsqrt %14 : tensor<1x1024x1xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %17 = stablehlo.multiply %12, %16 : tensor<1x1024x768xf32>
    %18 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %20 = stablehlo.multiply %17, %19 : tensor<1x1024x768xf32>
    %21 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %23 = stablehlo.add %20, %22 : tensor<1x1024x768xf32>
    %24 = stablehlo.dot_general %23, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x768xf32>, tensor<768x2304xf32>) -> tensor<1x1024x2304xf32>
    %25 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<2304xf32>) -> tensor<1x1x2304xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x2304xf32>) -> tensor<1x1024x2304xf32>
    %27 = stablehlo.add %24, %26 : tensor<1x1024x2304xf32>
    %28 = stablehlo.slice %27 [0:1, 0:1024, 0:768] : (tensor<1x1024x2304xf32>) -> tensor<1x1024x768xf32>
    %29 = stablehlo.slice %27 [0:1, 0:1024, 768:1536] : (tensor<1x1024x2304xf32>) -> tensor<1x1024x768xf32>
    %30 = stablehlo.slice %27 [0:1, 0:1024, 1536:2304] : (tensor<1x1024x2304xf32>) -> tensor<1x1024x768xf32>
    %31 = stablehlo.reshape %28 : (tensor<1x1024x768xf32>) -> tensor<1x1024x12x64xf32>
    %32 = stablehlo.reshape %29 : (tensor<1x1024x768xf32>) -> tensor<1x1024x12x64xf32>
    %33 = stablehlo.reshape %30 : (tensor<1x1024x768xf32>) -> tensor<1x1024x12x64xf32>
    %34 = stablehlo.dot_general %31, %32, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x12x64xf32>, tensor<1x1024x12x64xf32>) -> tensor<1x12x1024x1024xf32>
    %cst_4 = stablehlo.constant dense<6.400000e+01> : tensor<f32>
    %35 = stablehlo.sqrt %cst_4 : tensor<f32>
    %36 = stablehlo.convert %35 : tensor<f32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<f32>) -> tensor<1x12x1024x1024xf32>
    %38 = stablehlo.divide %34, %37 : tensor<1x12x1024x1024xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %39 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1024x1024xi1>
    %40 = call @tril(%39) : (tensor<1024x1024xi1>) -> tensor<1024x1024xi1>
    %cst_5 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %41 = call @_where(%40, %38, %cst_5) : (tensor<1024x1024xi1>, tensor<1x12x1024x1024xf32>, tensor<f32>) -> tensor<1x12x1024x1024xf32>
    %cst_6 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<1x12x1024x1024xf32>, tensor<f32>) -> tensor<1x12x1024xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x12x1024xf32>
    %44 = stablehlo.maximum %43, %42 : tensor<1x12x1024xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2] : (tensor<1x12x1024xf32>) -> tensor<1x12x1024x1xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x12x1024x1xf32>) -> tensor<1x12x1024x1024xf32>
    %47 = stablehlo.subtract %41, %46 : tensor<1x12x1024x1024xf32>
    %48 = stablehlo.exponential %47 : tensor<1x12x1024x1024xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<1x12x1024x1024xf32>, tensor<f32>) -> tensor<1x12x1024xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<1x12x1024xf32>) -> tensor<1x12x1024x1xf32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2, 3] : (tensor<1x12x1024x1xf32>) -> tensor<1x12x1024x1024xf32>
    %52 = stablehlo.divide %48, %51 : tensor<1x12x1024x1024xf32>
    %53 = stablehlo.dot_general %33, %52, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x12x64xf32>, tensor<1x12x1024x1024xf32>) -> tensor<1x12x64x1024xf32>
    %54 = stablehlo.transpose %53, dims = [0, 3, 1, 2] : (tensor<1x12x64x1024xf32>) -> tensor<1x1024x12x64xf32>
    %55 = stablehlo.reshape %54 : (tensor<1x1024x12x64xf32>) -> tensor<1x1024x768xf32>
    %56 = stablehlo.dot_general %55, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x768xf32>, tensor<768x768xf32>) -> tensor<1x1024x768xf32>
    %57 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %59 = stablehlo.add %56, %58 : tensor<1x1024x768xf32>
    %60 = stablehlo.add %arg12, %59 : tensor<1x1024x768xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %61 = stablehlo.reduce(%60 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1x1024xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1] : (tensor<1x1024xf32>) -> tensor<1x1024x1xf32>
    %cst_10 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %64 = stablehlo.divide %62, %63 : tensor<1x1024x1xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %66 = stablehlo.subtract %60, %65 : tensor<1x1024x768xf32>
    %67 = stablehlo.multiply %66, %66 : tensor<1x1024x768xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%67 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<1x1024x768xf32>, tensor<f32>) -> tensor<1x1024xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<1x1024xf32>) -> tensor<1x1024x1xf32>
    %cst_12 = stablehlo.constant dense<7.680000e+02> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %71 = stablehlo.divide %69, %70 : tensor<1x1024x1xf32>
    %72 = stablehlo.broadcast_in_dim %64, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %73 = stablehlo.subtract %60, %72 : tensor<1x1024x768xf32>
    %cst_13 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x1024x1xf32>
    %75 = stablehlo.add %71, %74 : tensor<1x1024x1xf32>
    %76 = stablehlo.rsqrt %75 : tensor<1x1024x1xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<1x1024x1xf32>) -> tensor<1x1024x768xf32>
    %78 = stablehlo.multiply %73, %77 : tensor<1x1024x768xf32>
    %79 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %81 = stablehlo.multiply %78, %80 : tensor<1x1024x768xf32>
    %82 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %84 = stablehlo.add %81, %83 : tensor<1x1024x768xf32>
    %85 = stablehlo.dot_general %84, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x768xf32>, tensor<768x3072xf32>) -> tensor<1x1024x3072xf32>
    %86 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<3072xf32>) -> tensor<1x1x3072xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<1x1x3072xf32>) -> tensor<1x1024x3072xf32>
    %88 = stablehlo.add %85, %87 : tensor<1x1024x3072xf32>
    %89 = stablehlo.multiply %88, %88 : tensor<1x1024x3072xf32>
    %90 = stablehlo.multiply %89, %88 : tensor<1x1024x3072xf32>
    %cst_14 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x1024x3072xf32>
    %92 = stablehlo.multiply %91, %90 : tensor<1x1024x3072xf32>
    %93 = stablehlo.add %88, %92 : tensor<1x1024x3072xf32>
    %cst_15 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<1x1024x3072xf32>
    %95 = stablehlo.multiply %94, %93 : tensor<1x1024x3072xf32>
    %96 = stablehlo.tanh %95 : tensor<1x1024x3072xf32>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %97 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<1x1024x3072xf32>
    %98 = stablehlo.add %97, %96 : tensor<1x1024x3072xf32>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %99 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x1024x3072xf32>
    %100 = stablehlo.multiply %99, %98 : tensor<1x1024x3072xf32>
    %101 = stablehlo.multiply %88, %100 : tensor<1x1024x3072xf32>
    %102 = stablehlo.dot_general %101, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1024x3072xf32>, tensor<3072x768xf32>) -> tensor<1x1024x768xf32>
    %103 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x1024x768xf32>
    %105 = stablehlo.add %102, %104 : tensor<1x1024x768xf32>
    %106 = stablehlo.add %60, %105 : tensor<1x1024x768xf32>
    return %106 : tensor<1x1024x768xf32>
  }
  func.func private @tril(%arg0: tensor<1024x1024xi1>) -> tensor<1024x1024xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<1024x1024xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1024x1024xi32>
    %2 = stablehlo.add %0, %1 : tensor<1024x1024xi32>
    %3 = stablehlo.iota dim = 1 : tensor<1024x1024xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<1024x1024xi32>, tensor<1024x1024xi32>) -> tensor<1024x1024xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<1024x1024xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<1024x1024xi1>, tensor<1024x1024xi1>
    return %6 : tensor<1024x1024xi1>
  }
  func.func private @_where(%arg0: tensor<1024x1024xi1>, %arg1: tensor<1x12x1024x1024xf32>, %arg2: tensor<f32>) -> tensor<1x12x1024x1024xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<1024x1024xi1>) -> tensor<1x12x1024x1024xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x12x1024x1024xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x12x1024x1024xi1>, tensor<1x12x1024x1024xf32>
    return %3 : tensor<1x12x1024x1024xf32>
  }
}
