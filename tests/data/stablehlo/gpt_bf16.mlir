module @jit_gpt attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32xbf16> loc("params['layers'][0]['down']['b']"), %arg1: tensor<128x32xbf16> loc("params['layers'][0]['down']['w']"), %arg2: tensor<32xbf16> loc("params['layers'][0]['ln1']['b']"), %arg3: tensor<32xbf16> loc("params['layers'][0]['ln1']['g']"), %arg4: tensor<32xbf16> loc("params['layers'][0]['ln2']['b']"), %arg5: tensor<32xbf16> loc("params['layers'][0]['ln2']['g']"), %arg6: tensor<32xbf16> loc("params['layers'][0]['out']['b']"), %arg7: tensor<32x32xbf16> loc("params['layers'][0]['out']['w']"), %arg8: tensor<96xbf16> loc("params['layers'][0]['qkv']['b']"), %arg9: tensor<32x96xbf16> loc("params['layers'][0]['qkv']['w']"), %arg10: tensor<128xbf16> loc("params['layers'][0]['up']['b']"), %arg11: tensor<32x128xbf16> loc("params['layers'][0]['up']['w']"), %arg12: tensor<32xbf16> loc("params['layers'][1]['down']['b']"), %arg13: tensor<128x32xbf16> loc("params['layers'][1]['down']['w']"), %arg14: tensor<32xbf16> loc("params['layers'][1]['ln1']['b']"), %arg15: tensor<32xbf16> loc("params['layers'][1]['ln1']['g']"), %arg16: tensor<32xbf16> loc("params['layers'][1]['ln2']['b']"), %arg17: tensor<32xbf16> loc("params['layers'][1]['ln2']['g']"), %arg18: tensor<32xbf16> loc("params['layers'][1]['out']['b']"), %arg19: tensor<32x32xbf16> loc("params['layers'][1]['out']['w']"), %arg20: tensor<96xbf16> loc("params['layers'][1]['qkv']['b']"), %arg21: tensor<32x96xbf16> loc("params['layers'][1]['qkv']['w']"), %arg22: tensor<128xbf16> loc("params['layers'][1]['up']['b']"), %arg23: tensor<32x128xbf16> loc("params['layers'][1]['up']['w']"), %arg24: tensor<32xbf16> loc("params['layers'][2]['down']['b']"), %arg25: tensor<128x32xbf16> loc("params['layers'][2]['down']['w']"), %arg26: tensor<32xbf16> loc("params['layers'][2]['ln1']['b']"), %arg27: tensor<32xbf16> loc("params['layers'][2]['ln1']['g']"), %arg28: tensor<32xbf16> loc("params['layers'][2]['ln2']['b']"), %arg29: tensor<32xbf16> loc("params['layers'][2]['ln2']['g']"), %arg30: tensor<32xbf16> loc("params['layers'][2]['out']['b']"), %arg31: tensor<32x32xbf16> loc("params['layers'][2]['out']['w']"), %arg32: tensor<96xbf16> loc("params['layers'][2]['qkv']['b']"), %arg33: tensor<32x96xbf16> loc("params['layers'][2]['qkv']['w']"), %arg34: tensor<128xbf16> loc("params['layers'][2]['up']['b']"), %arg35: tensor<32x128xbf16> loc("params['layers'][2]['up']['w']"), %arg36: tensor<32xbf16> loc("params['ln']['b']"), %arg37: tensor<32xbf16> loc("params['ln']['g']"), %arg38: tensor<64x32xbf16> loc("params['wpe']"), %arg39: tensor<100x32xbf16> loc("params['wte']"), %arg40: tensor<2x64xi32> loc("tokens")) -> (tensor<2x64x100xbf16> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %1 = stablehlo.compare LT, %arg40, %0, SIGNED : (tensor<2x64xi32>, tensor<2x64xi32>) -> tensor<2x64xi1>
    %c_0 = stablehlo.constant dense<100> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %3 = stablehlo.add %arg40, %2 : tensor<2x64xi32>
    %4 = stablehlo.select %1, %3, %arg40 : tensor<2x64xi1>, tensor<2x64xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %6 = "stablehlo.gather"(%arg39, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xbf16>, tensor<2x64x1xi32>) -> tensor<2x64x32xbf16>
    %7 = stablehlo.broadcast_in_dim %arg38, dims = [1, 2] : (tensor<64x32xbf16>) -> tensor<1x64x32xbf16>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x64x32xbf16>) -> tensor<2x64x32xbf16>
    %9 = stablehlo.add %6, %8 : tensor<2x64x32xbf16>
    %10 = call @layer(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %9) : (tensor<32xbf16>, tensor<128x32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32x32xbf16>, tensor<96xbf16>, tensor<32x96xbf16>, tensor<128xbf16>, tensor<32x128xbf16>, tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16>
    %11 = call @layer(%arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %10) : (tensor<32xbf16>, tensor<128x32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32x32xbf16>, tensor<96xbf16>, tensor<32x96xbf16>, tensor<128xbf16>, tensor<32x128xbf16>, tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16>
    %12 = call @layer(%arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %11) : (tensor<32xbf16>, tensor<128x32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32xbf16>, tensor<32x32xbf16>, tensor<96xbf16>, tensor<32x96xbf16>, tensor<128xbf16>, tensor<32x128xbf16>, tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16>
    %13 = stablehlo.convert %12 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%13 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %17 = stablehlo.divide %15, %16 : tensor<2x64x1xf32>
    %18 = stablehlo.convert %17 : (tensor<2x64x1xf32>) -> tensor<2x64x1xbf16>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %20 = stablehlo.subtract %12, %19 : tensor<2x64x32xbf16>
    %21 = stablehlo.multiply %20, %20 : tensor<2x64x32xbf16>
    %22 = stablehlo.convert %21 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%22 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_3 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %26 = stablehlo.divide %24, %25 : tensor<2x64x1xf32>
    %27 = stablehlo.convert %26 : (tensor<2x64x1xf32>) -> tensor<2x64x1xbf16>
    %28 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %29 = stablehlo.subtract %12, %28 : tensor<2x64x32xbf16>
    %cst_4 = stablehlo.constant dense<1.001360e-05> : tensor<bf16>
    %30 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<bf16>) -> tensor<2x64x1xbf16>
    %31 = stablehlo.add %27, %30 : tensor<2x64x1xbf16>
    %32 = stablehlo.rsqrt %31 : tensor<2x64x1xbf16>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %34 = stablehlo.multiply %29, %33 : tensor<2x64x32xbf16>
    %35 = stablehlo.broadcast_in_dim %arg37, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %37 = stablehlo.multiply %34, %36 : tensor<2x64x32xbf16>
    %38 = stablehlo.broadcast_in_dim %arg36, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %39 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %40 = stablehlo.add %37, %39 : tensor<2x64x32xbf16>
    %41 = stablehlo.transpose %arg39, dims = [1, 0] : (tensor<100x32xbf16>) -> tensor<32x100xbf16>
    %42 = stablehlo.dot_general %40, %41, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x100xbf16>) -> tensor<2x64x100xbf16>
    return %42 : tensor<2x64x100xbf16>
  }
  func.func private @layer(%arg0: tensor<32xbf16>, %arg1: tensor<128x32xbf16>, %arg2: tensor<32xbf16>, %arg3: tensor<32xbf16>, %arg4: tensor<32xbf16>, %arg5: tensor<32xbf16>, %arg6: tensor<32xbf16>, %arg7: tensor<32x32xbf16>, %arg8: tensor<96xbf16>, %arg9: tensor<32x96xbf16>, %arg10: tensor<128xbf16>, %arg11: tensor<32x128xbf16>, %arg12: tensor<2x64x32xbf16>) -> tensor<2x64x32xbf16> {
    %0 = stablehlo.convert %arg12 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<2x64x1xf32>
    %5 = stablehlo.convert %4 : (tensor<2x64x1xf32>) -> tensor<2x64x1xbf16>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %7 = stablehlo.subtract %arg12, %6 : tensor<2x64x32xbf16>
    %8 = stablehlo.multiply %7, %7 : tensor<2x64x32xbf16>
    %9 = stablehlo.convert %8 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_2 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x64x1xf32>
    %14 = stablehlo.convert %13 : (tensor<2x64x1xf32>) -> tensor<2x64x1xbf16>
    %15 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %16 = stablehlo.subtract %arg12, %15 : tensor<2x64x32xbf16>
    %cst_3 = stablehlo.constant dense<1.001360e-05> : tensor<bf16>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<bf16>) -> tensor<2x64x1xbf16>
    %18 = stablehlo.add %14, %17 : tensor<2x64x1xbf16>
    %19 = stablehlo.rsqrt %18 : tensor<2x64x1xbf16>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %21 = stablehlo.multiply %16, %20 : tensor<2x64x32xbf16>
    %22 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %24 = stablehlo.multiply %21, %23 : tensor<2x64x32xbf16>
    %25 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %27 = stablehlo.add %24, %26 : tensor<2x64x32xbf16>
    %28 = stablehlo.dot_general %27, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x96xbf16>) -> tensor<2x64x96xbf16>
    %29 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<96xbf16>) -> tensor<1x1x96xbf16>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2] : (tensor<1x1x96xbf16>) -> tensor<2x64x96xbf16>
    %31 = stablehlo.add %28, %30 : tensor<2x64x96xbf16>
    %32 = stablehlo.slice %31 [0:2, 0:64, 0:32] : (tensor<2x64x96xbf16>) -> tensor<2x64x32xbf16>
    %33 = stablehlo.slice %31 [0:2, 0:64, 32:64] : (tensor<2x64x96xbf16>) -> tensor<2x64x32xbf16>
    %34 = stablehlo.slice %31 [0:2, 0:64, 64:96] : (tensor<2x64x96xbf16>) -> tensor<2x64x32xbf16>
    %35 = stablehlo.reshape %32 : (tensor<2x64x32xbf16>) -> tensor<2x64x4x8xbf16>
    %36 = stablehlo.reshape %33 : (tensor<2x64x32xbf16>) -> tensor<2x64x4x8xbf16>
    %37 = stablehlo.reshape %34 : (tensor<2x64x32xbf16>) -> tensor<2x64x4x8xbf16>
    %38 = stablehlo.dot_general %35, %36, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x64x4x8xbf16>) -> tensor<2x4x64x64xbf16>
    %cst_4 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %39 = stablehlo.sqrt %cst_4 : tensor<f32>
    %40 = stablehlo.convert %39 : (tensor<f32>) -> tensor<bf16>
    %41 = stablehlo.broadcast_in_dim %40, dims = [] : (tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %42 = stablehlo.divide %38, %41 : tensor<2x4x64x64xbf16>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %43 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %44 = call @tril(%43) : (tensor<64x64xi1>) -> tensor<64x64xi1>
    %cst_5 = stablehlo.constant dense<-1.000000e+09> : tensor<f32>
    %45 = call @_where(%44, %42, %cst_5) : (tensor<64x64xi1>, tensor<2x4x64x64xbf16>, tensor<f32>) -> tensor<2x4x64x64xbf16>
    %cst_6 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %46 = stablehlo.reduce(%45 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64xbf16>
    %cst_7 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %47 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<2x4x64xbf16>
    %48 = stablehlo.maximum %47, %46 : tensor<2x4x64xbf16>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2] : (tensor<2x4x64xbf16>) -> tensor<2x4x64x1xbf16>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %51 = stablehlo.subtract %45, %50 : tensor<2x4x64x64xbf16>
    %52 = stablehlo.exponential %51 : tensor<2x4x64x64xbf16>
    %53 = stablehlo.convert %52 : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x64xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %54 = stablehlo.reduce(%53 init: %cst_8) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %56 = stablehlo.convert %55 : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x1xbf16>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %58 = stablehlo.divide %52, %57 : tensor<2x4x64x64xbf16>
    %59 = stablehlo.dot_general %37, %58, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x4x64x64xbf16>) -> tensor<2x4x8x64xbf16>
    %60 = stablehlo.transpose %59, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xbf16>) -> tensor<2x64x4x8xbf16>
    %61 = stablehlo.reshape %60 : (tensor<2x64x4x8xbf16>) -> tensor<2x64x32xbf16>
    %62 = stablehlo.dot_general %61, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x32xbf16>) -> tensor<2x64x32xbf16>
    %63 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %65 = stablehlo.add %62, %64 : tensor<2x64x32xbf16>
    %66 = stablehlo.add %arg12, %65 : tensor<2x64x32xbf16>
    %67 = stablehlo.convert %66 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %68 = stablehlo.reduce(%67 init: %cst_9) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_10 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %71 = stablehlo.divide %69, %70 : tensor<2x64x1xf32>
    %72 = stablehlo.convert %71 : (tensor<2x64x1xf32>) -> tensor<2x64x1xbf16>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %74 = stablehlo.subtract %66, %73 : tensor<2x64x32xbf16>
    %75 = stablehlo.multiply %74, %74 : tensor<2x64x32xbf16>
    %76 = stablehlo.convert %75 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %77 = stablehlo.reduce(%76 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_12 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %79 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %80 = stablehlo.divide %78, %79 : tensor<2x64x1xf32>
    %81 = stablehlo.convert %80 : (tensor<2x64x1xf32>) -> tensor<2x64x1xbf16>
    %82 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %83 = stablehlo.subtract %66, %82 : tensor<2x64x32xbf16>
    %cst_13 = stablehlo.constant dense<1.001360e-05> : tensor<bf16>
    %84 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<bf16>) -> tensor<2x64x1xbf16>
    %85 = stablehlo.add %81, %84 : tensor<2x64x1xbf16>
    %86 = stablehlo.rsqrt %85 : tensor<2x64x1xbf16>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<2x64x1xbf16>) -> tensor<2x64x32xbf16>
    %88 = stablehlo.multiply %83, %87 : tensor<2x64x32xbf16>
    %89 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %91 = stablehlo.multiply %88, %90 : tensor<2x64x32xbf16>
    %92 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %94 = stablehlo.add %91, %93 : tensor<2x64x32xbf16>
    %95 = stablehlo.dot_general %94, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x128xbf16>) -> tensor<2x64x128xbf16>
    %96 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<2x64x128xbf16>
    %98 = stablehlo.add %95, %97 : tensor<2x64x128xbf16>
    %99 = stablehlo.multiply %98, %98 : tensor<2x64x128xbf16>
    %100 = stablehlo.multiply %99, %98 : tensor<2x64x128xbf16>
    %cst_14 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %101 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %102 = stablehlo.multiply %101, %100 : tensor<2x64x128xbf16>
    %103 = stablehlo.add %98, %102 : tensor<2x64x128xbf16>
    %cst_15 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %104 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %105 = stablehlo.multiply %104, %103 : tensor<2x64x128xbf16>
    %106 = stablehlo.tanh %105 : tensor<2x64x128xbf16>
    %cst_16 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %107 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %108 = stablehlo.add %107, %106 : tensor<2x64x128xbf16>
    %cst_17 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %109 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %110 = stablehlo.multiply %109, %108 : tensor<2x64x128xbf16>
    %111 = stablehlo.multiply %98, %110 : tensor<2x64x128xbf16>
    %112 = stablehlo.dot_general %111, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<128x32xbf16>) -> tensor<2x64x32xbf16>
    %113 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %115 = stablehlo.add %112, %114 : tensor<2x64x32xbf16>
    %116 = stablehlo.add %66, %115 : tensor<2x64x32xbf16>
    return %116 : tensor<2x64x32xbf16>
  }
  func.func private @tril(%arg0: tensor<64x64xi1>) -> tensor<64x64xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<64x64xi32>
    %2 = stablehlo.add %0, %1 : tensor<64x64xi32>
    %3 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<64x64xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<64x64xi1>, tensor<64x64xi1>
    return %6 : tensor<64x64xi1>
  }
  func.func private @_where(%arg0: tensor<64x64xi1>, %arg1: tensor<2x4x64x64xbf16>, %arg2: tensor<f32>) -> tensor<2x4x64x64xbf16> {
    %0 = stablehlo.convert %arg2 : (tensor<f32>) -> tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<64x64xi1>) -> tensor<2x4x64x64xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x64x64xi1>, tensor<2x4x64x64xbf16>
    return %3 : tensor<2x4x64x64xbf16>
  }
}
