module @jit_apart attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32xf32> loc("params['layers'][0]['down']['b']"), %arg1: tensor<128x32xf32> loc("params['layers'][0]['down']['w']"), %arg2: tensor<4x8xf32> loc("params['layers'][0]['k']['b']"), %arg3: tensor<32x4x8xf32> loc("params['layers'][0]['k']['w']"), %arg4: tensor<32xf32> loc("params['layers'][0]['ln1']['b']"), %arg5: tensor<32xf32> loc("params['layers'][0]['ln1']['g']"), %arg6: tensor<32xf32> loc("params['layers'][0]['ln2']['b']"), %arg7: tensor<32xf32> loc("params['layers'][0]['ln2']['g']"), %arg8: tensor<32xf32> loc("params['layers'][0]['out']['b']"), %arg9: tensor<4x8x32xf32> loc("params['layers'][0]['out']['w']"), %arg10: tensor<4x8xf32> loc("params['layers'][0]['q']['b']"), %arg11: tensor<32x4x8xf32> loc("params['layers'][0]['q']['w']"), %arg12: tensor<128xf32> loc("params['layers'][0]['up']['b']"), %arg13: tensor<32x128xf32> loc("params['layers'][0]['up']['w']"), %arg14: tensor<4x8xf32> loc("params['layers'][0]['v']['b']"), %arg15: tensor<32x4x8xf32> loc("params['layers'][0]['v']['w']"), %arg16: tensor<32xf32> loc("params['layers'][1]['down']['b']"), %arg17: tensor<128x32xf32> loc("params['layers'][1]['down']['w']"), %arg18: tensor<4x8xf32> loc("params['layers'][1]['k']['b']"), %arg19: tensor<32x4x8xf32> loc("params['layers'][1]['k']['w']"), %arg20: tensor<32xf32> loc("params['layers'][1]['ln1']['b']"), %arg21: tensor<32xf32> loc("params['layers'][1]['ln1']['g']"), %arg22: tensor<32xf32> loc("params['layers'][1]['ln2']['b']"), %arg23: tensor<32xf32> loc("params['layers'][1]['ln2']['g']"), %arg24: tensor<32xf32> loc("params['layers'][1]['out']['b']"), %arg25: tensor<4x8x32xf32> loc("params['layers'][1]['out']['w']"), %arg26: tensor<4x8xf32> loc("params['layers'][1]['q']['b']"), %arg27: tensor<32x4x8xf32> loc("params['layers'][1]['q']['w']"), %arg28: tensor<128xf32> loc("params['layers'][1]['up']['b']"), %arg29: tensor<32x128xf32> loc("params['layers'][1]['up']['w']"), %arg30: tensor<4x8xf32> loc("params['layers'][1]['v']['b']"), %arg31: tensor<32x4x8xf32> loc("params['layers'][1]['v']['w']"), %arg32: tensor<32xf32> loc("params['layers'][2]['down']['b']"), %arg33: tensor<128x32xf32> loc("params['layers'][2]['down']['w']"), %arg34: tensor<4x8xf32> loc("params['layers'][2]['k']['b']"), %arg35: tensor<32x4x8xf32> loc("params['layers'][2]['k']['w']"), %arg36: tensor<32xf32> loc("params['layers'][2]['ln1']['b']"), %arg37: tensor<32xf32> loc("params['layers'][2]['ln1']['g']"), %arg38: tensor<32xf32> loc("params['layers'][2]['ln2']['b']"), %arg39: tensor<32xf32> loc("params['layers'][2]['ln2']['g']"), %arg40: tensor<32xf32> loc("params['layers'][2]['out']['b']"), %arg41: tensor<4x8x32xf32> loc("params['layers'][2]['out']['w']"), %arg42: tensor<4x8xf32> loc("params['layers'][2]['q']['b']"), %arg43: tensor<32x4x8xf32> loc("params['layers'][2]['q']['w']"), %arg44: tensor<128xf32> loc("params['layers'][2]['up']['b']"), %arg45: tensor<32x128xf32> loc("params['layers'][2]['up']['w']"), %arg46: tensor<4x8xf32> loc("params['layers'][2]['v']['b']"), %arg47: tensor<32x4x8xf32> loc("params['layers'][2]['v']['w']"), %arg48: tensor<32xf32> loc("params['ln']['b']"), %arg49: tensor<32xf32> loc("params['ln']['g']"), %arg50: tensor<64x32xf32> loc("params['wpe']"), %arg51: tensor<100x32xf32> loc("params['wte']"), %arg52: tensor<2x64xi32> loc("tokens")) -> (tensor<2x64x100xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %1 = stablehlo.compare LT, %arg52, %0, SIGNED : (tensor<2x64xi32>, tensor<2x64xi32>) -> tensor<2x64xi1>
    %c_0 = stablehlo.constant dense<100> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %3 = stablehlo.add %arg52, %2 : tensor<2x64xi32>
    %4 = stablehlo.select %1, %3, %arg52 : tensor<2x64xi1>, tensor<2x64xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %6 = "stablehlo.gather"(%arg51, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xf32>, tensor<2x64x1xi32>) -> tensor<2x64x32xf32>
    %7 = stablehlo.broadcast_in_dim %arg50, dims = [1, 2] : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x64x32xf32>) -> tensor<2x64x32xf32>
    %9 = stablehlo.add %6, %8 : tensor<2x64x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x64x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %15 = stablehlo.subtract %9, %14 : tensor<2x64x32xf32>
    %16 = stablehlo.multiply %15, %15 : tensor<2x64x32xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_3 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %20 = stablehlo.divide %18, %19 : tensor<2x64x1xf32>
    %21 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %22 = stablehlo.subtract %9, %21 : tensor<2x64x32xf32>
    %cst_4 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %24 = stablehlo.add %20, %23 : tensor<2x64x1xf32>
    %25 = stablehlo.rsqrt %24 : tensor<2x64x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %27 = stablehlo.multiply %22, %26 : tensor<2x64x32xf32>
    %28 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %30 = stablehlo.multiply %27, %29 : tensor<2x64x32xf32>
    %31 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %33 = stablehlo.add %30, %32 : tensor<2x64x32xf32>
    %34 = stablehlo.dot_general %33, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %35 = stablehlo.broadcast_in_dim %arg10, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %37 = stablehlo.add %34, %36 : tensor<2x64x4x8xf32>
    %38 = stablehlo.dot_general %33, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %39 = stablehlo.broadcast_in_dim %arg2, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %41 = stablehlo.add %38, %40 : tensor<2x64x4x8xf32>
    %42 = stablehlo.dot_general %33, %arg15, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %43 = stablehlo.broadcast_in_dim %arg14, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %45 = stablehlo.add %42, %44 : tensor<2x64x4x8xf32>
    %46 = stablehlo.dot_general %37, %41, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<2x64x4x8xf32>) -> tensor<2x4x64x64xf32>
    %cst_5 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x4x64x64xf32>
    %48 = stablehlo.multiply %46, %47 : tensor<2x4x64x64xf32>
    %49 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %50 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %51 = stablehlo.compare GE, %49, %50, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %cst_6 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %52 = call @_where(%51, %48, %cst_6) : (tensor<64x64xi1>, tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64x64xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %53 = stablehlo.reduce(%52 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %54 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x4x64xf32>
    %55 = stablehlo.maximum %54, %53 : tensor<2x4x64xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %57 = stablehlo.broadcast_in_dim %56, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %58 = stablehlo.subtract %52, %57 : tensor<2x4x64x64xf32>
    %59 = stablehlo.exponential %58 : tensor<2x4x64x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %60 = stablehlo.reduce(%59 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %63 = stablehlo.divide %59, %62 : tensor<2x4x64x64xf32>
    %64 = stablehlo.dot_general %45, %63, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<2x4x64x64xf32>) -> tensor<2x4x8x64xf32>
    %65 = stablehlo.transpose %64, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xf32>) -> tensor<2x64x4x8xf32>
    %66 = stablehlo.dot_general %65, %arg9, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x64x32xf32>
    %67 = stablehlo.add %9, %66 : tensor<2x64x32xf32>
    %68 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %70 = stablehlo.add %67, %69 : tensor<2x64x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %71 = stablehlo.reduce(%70 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_11 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %74 = stablehlo.divide %72, %73 : tensor<2x64x1xf32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %76 = stablehlo.subtract %70, %75 : tensor<2x64x32xf32>
    %77 = stablehlo.multiply %76, %76 : tensor<2x64x32xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %78 = stablehlo.reduce(%77 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_13 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %81 = stablehlo.divide %79, %80 : tensor<2x64x1xf32>
    %82 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %83 = stablehlo.subtract %70, %82 : tensor<2x64x32xf32>
    %cst_14 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %85 = stablehlo.add %81, %84 : tensor<2x64x1xf32>
    %86 = stablehlo.rsqrt %85 : tensor<2x64x1xf32>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %88 = stablehlo.multiply %83, %87 : tensor<2x64x32xf32>
    %89 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %91 = stablehlo.multiply %88, %90 : tensor<2x64x32xf32>
    %92 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %93 = stablehlo.broadcast_in_dim %92, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %94 = stablehlo.add %91, %93 : tensor<2x64x32xf32>
    %95 = stablehlo.dot_general %94, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x128xf32>) -> tensor<2x64x128xf32>
    %96 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %97 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x64x128xf32>
    %98 = stablehlo.add %95, %97 : tensor<2x64x128xf32>
    %99 = stablehlo.multiply %98, %98 : tensor<2x64x128xf32>
    %100 = stablehlo.multiply %99, %98 : tensor<2x64x128xf32>
    %cst_15 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %101 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %102 = stablehlo.multiply %101, %100 : tensor<2x64x128xf32>
    %103 = stablehlo.add %98, %102 : tensor<2x64x128xf32>
    %cst_16 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %104 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %105 = stablehlo.multiply %104, %103 : tensor<2x64x128xf32>
    %106 = stablehlo.tanh %105 : tensor<2x64x128xf32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %108 = stablehlo.add %107, %106 : tensor<2x64x128xf32>
    %cst_18 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %109 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %110 = stablehlo.multiply %109, %108 : tensor<2x64x128xf32>
    %111 = stablehlo.multiply %98, %110 : tensor<2x64x128xf32>
    %112 = stablehlo.dot_general %111, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
    %113 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %115 = stablehlo.add %112, %114 : tensor<2x64x32xf32>
    %116 = stablehlo.add %70, %115 : tensor<2x64x32xf32>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %117 = stablehlo.reduce(%116 init: %cst_19) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_20 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %120 = stablehlo.divide %118, %119 : tensor<2x64x1xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %122 = stablehlo.subtract %116, %121 : tensor<2x64x32xf32>
    %123 = stablehlo.multiply %122, %122 : tensor<2x64x32xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %124 = stablehlo.reduce(%123 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %125 = stablehlo.broadcast_in_dim %124, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_22 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %126 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %127 = stablehlo.divide %125, %126 : tensor<2x64x1xf32>
    %128 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %129 = stablehlo.subtract %116, %128 : tensor<2x64x32xf32>
    %cst_23 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %130 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %131 = stablehlo.add %127, %130 : tensor<2x64x1xf32>
    %132 = stablehlo.rsqrt %131 : tensor<2x64x1xf32>
    %133 = stablehlo.broadcast_in_dim %132, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %134 = stablehlo.multiply %129, %133 : tensor<2x64x32xf32>
    %135 = stablehlo.broadcast_in_dim %arg21, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %136 = stablehlo.broadcast_in_dim %135, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %137 = stablehlo.multiply %134, %136 : tensor<2x64x32xf32>
    %138 = stablehlo.broadcast_in_dim %arg20, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %140 = stablehlo.add %137, %139 : tensor<2x64x32xf32>
    %141 = stablehlo.dot_general %140, %arg27, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %142 = stablehlo.broadcast_in_dim %arg26, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %143 = stablehlo.broadcast_in_dim %142, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %144 = stablehlo.add %141, %143 : tensor<2x64x4x8xf32>
    %145 = stablehlo.dot_general %140, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %146 = stablehlo.broadcast_in_dim %arg18, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %147 = stablehlo.broadcast_in_dim %146, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %148 = stablehlo.add %145, %147 : tensor<2x64x4x8xf32>
    %149 = stablehlo.dot_general %140, %arg31, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %150 = stablehlo.broadcast_in_dim %arg30, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %151 = stablehlo.broadcast_in_dim %150, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %152 = stablehlo.add %149, %151 : tensor<2x64x4x8xf32>
    %153 = stablehlo.dot_general %144, %148, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<2x64x4x8xf32>) -> tensor<2x4x64x64xf32>
    %cst_24 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %154 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x4x64x64xf32>
    %155 = stablehlo.multiply %153, %154 : tensor<2x4x64x64xf32>
    %156 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %157 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %158 = stablehlo.compare GE, %156, %157, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %cst_25 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %159 = call @_where(%158, %155, %cst_25) : (tensor<64x64xi1>, tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64x64xf32>
    %cst_26 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %160 = stablehlo.reduce(%159 init: %cst_26) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %cst_27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %161 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x4x64xf32>
    %162 = stablehlo.maximum %161, %160 : tensor<2x4x64xf32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %164 = stablehlo.broadcast_in_dim %163, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %165 = stablehlo.subtract %159, %164 : tensor<2x4x64x64xf32>
    %166 = stablehlo.exponential %165 : tensor<2x4x64x64xf32>
    %cst_28 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %167 = stablehlo.reduce(%166 init: %cst_28) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %168 = stablehlo.broadcast_in_dim %167, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %169 = stablehlo.broadcast_in_dim %168, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %170 = stablehlo.divide %166, %169 : tensor<2x4x64x64xf32>
    %171 = stablehlo.dot_general %152, %170, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<2x4x64x64xf32>) -> tensor<2x4x8x64xf32>
    %172 = stablehlo.transpose %171, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xf32>) -> tensor<2x64x4x8xf32>
    %173 = stablehlo.dot_general %172, %arg25, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x64x32xf32>
    %174 = stablehlo.add %116, %173 : tensor<2x64x32xf32>
    %175 = stablehlo.broadcast_in_dim %arg24, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %176 = stablehlo.broadcast_in_dim %175, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %177 = stablehlo.add %174, %176 : tensor<2x64x32xf32>
    %cst_29 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %178 = stablehlo.reduce(%177 init: %cst_29) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %179 = stablehlo.broadcast_in_dim %178, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_30 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_30, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %181 = stablehlo.divide %179, %180 : tensor<2x64x1xf32>
    %182 = stablehlo.broadcast_in_dim %181, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %183 = stablehlo.subtract %177, %182 : tensor<2x64x32xf32>
    %184 = stablehlo.multiply %183, %183 : tensor<2x64x32xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %185 = stablehlo.reduce(%184 init: %cst_31) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %186 = stablehlo.broadcast_in_dim %185, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_32 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %187 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %188 = stablehlo.divide %186, %187 : tensor<2x64x1xf32>
    %189 = stablehlo.broadcast_in_dim %181, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %190 = stablehlo.subtract %177, %189 : tensor<2x64x32xf32>
    %cst_33 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %191 = stablehlo.broadcast_in_dim %cst_33, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %192 = stablehlo.add %188, %191 : tensor<2x64x1xf32>
    %193 = stablehlo.rsqrt %192 : tensor<2x64x1xf32>
    %194 = stablehlo.broadcast_in_dim %193, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %195 = stablehlo.multiply %190, %194 : tensor<2x64x32xf32>
    %196 = stablehlo.broadcast_in_dim %arg23, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %197 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %198 = stablehlo.multiply %195, %197 : tensor<2x64x32xf32>
    %199 = stablehlo.broadcast_in_dim %arg22, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %200 = stablehlo.broadcast_in_dim %199, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %201 = stablehlo.add %198, %200 : tensor<2x64x32xf32>
    %202 = stablehlo.dot_general %201, %arg29, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x128xf32>) -> tensor<2x64x128xf32>
    %203 = stablehlo.broadcast_in_dim %arg28, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %204 = stablehlo.broadcast_in_dim %203, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x64x128xf32>
    %205 = stablehlo.add %202, %204 : tensor<2x64x128xf32>
    %206 = stablehlo.multiply %205, %205 : tensor<2x64x128xf32>
    %207 = stablehlo.multiply %206, %205 : tensor<2x64x128xf32>
    %cst_34 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %208 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %209 = stablehlo.multiply %208, %207 : tensor<2x64x128xf32>
    %210 = stablehlo.add %205, %209 : tensor<2x64x128xf32>
    %cst_35 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %211 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %212 = stablehlo.multiply %211, %210 : tensor<2x64x128xf32>
    %213 = stablehlo.tanh %212 : tensor<2x64x128xf32>
    %cst_36 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %214 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %215 = stablehlo.add %214, %213 : tensor<2x64x128xf32>
    %cst_37 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %217 = stablehlo.multiply %216, %215 : tensor<2x64x128xf32>
    %218 = stablehlo.multiply %205, %217 : tensor<2x64x128xf32>
    %219 = stablehlo.dot_general %218, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
    %220 = stablehlo.broadcast_in_dim %arg16, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %221 = stablehlo.broadcast_in_dim %220, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %222 = stablehlo.add %219, %221 : tensor<2x64x32xf32>
    %223 = stablehlo.add %177, %222 : tensor<2x64x32xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%223 init: %cst_38) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %225 = stablehlo.broadcast_in_dim %224, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_39 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %226 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %227 = stablehlo.divide %225, %226 : tensor<2x64x1xf32>
    %228 = stablehlo.broadcast_in_dim %227, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %229 = stablehlo.subtract %223, %228 : tensor<2x64x32xf32>
    %230 = stablehlo.multiply %229, %229 : tensor<2x64x32xf32>
    %cst_40 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %231 = stablehlo.reduce(%230 init: %cst_40) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %232 = stablehlo.broadcast_in_dim %231, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_41 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %233 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %234 = stablehlo.divide %232, %233 : tensor<2x64x1xf32>
    %235 = stablehlo.broadcast_in_dim %227, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %236 = stablehlo.subtract %223, %235 : tensor<2x64x32xf32>
    %cst_42 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %238 = stablehlo.add %234, %237 : tensor<2x64x1xf32>
    %239 = stablehlo.rsqrt %238 : tensor<2x64x1xf32>
    %240 = stablehlo.broadcast_in_dim %239, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %241 = stablehlo.multiply %236, %240 : tensor<2x64x32xf32>
    %242 = stablehlo.broadcast_in_dim %arg37, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %244 = stablehlo.multiply %241, %243 : tensor<2x64x32xf32>
    %245 = stablehlo.broadcast_in_dim %arg36, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %247 = stablehlo.add %244, %246 : tensor<2x64x32xf32>
    %248 = stablehlo.dot_general %247, %arg43, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %249 = stablehlo.broadcast_in_dim %arg42, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %250 = stablehlo.broadcast_in_dim %249, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %251 = stablehlo.add %248, %250 : tensor<2x64x4x8xf32>
    %252 = stablehlo.dot_general %247, %arg35, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %253 = stablehlo.broadcast_in_dim %arg34, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %254 = stablehlo.broadcast_in_dim %253, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %255 = stablehlo.add %252, %254 : tensor<2x64x4x8xf32>
    %256 = stablehlo.dot_general %247, %arg47, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %257 = stablehlo.broadcast_in_dim %arg46, dims = [2, 3] : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %258 = stablehlo.broadcast_in_dim %257, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %259 = stablehlo.add %256, %258 : tensor<2x64x4x8xf32>
    %260 = stablehlo.dot_general %251, %255, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<2x64x4x8xf32>) -> tensor<2x4x64x64xf32>
    %cst_43 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %261 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<2x4x64x64xf32>
    %262 = stablehlo.multiply %260, %261 : tensor<2x4x64x64xf32>
    %263 = stablehlo.iota dim = 0 : tensor<64x64xi32>
    %264 = stablehlo.iota dim = 1 : tensor<64x64xi32>
    %265 = stablehlo.compare GE, %263, %264, SIGNED : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
    %cst_44 = stablehlo.constant dense<-3.40282347E+38> : tensor<f32>
    %266 = call @_where(%265, %262, %cst_44) : (tensor<64x64xi1>, tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64x64xf32>
    %cst_45 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %267 = stablehlo.reduce(%266 init: %cst_45) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %cst_46 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %268 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x4x64xf32>
    %269 = stablehlo.maximum %268, %267 : tensor<2x4x64xf32>
    %270 = stablehlo.broadcast_in_dim %269, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %271 = stablehlo.broadcast_in_dim %270, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %272 = stablehlo.subtract %266, %271 : tensor<2x4x64x64xf32>
    %273 = stablehlo.exponential %272 : tensor<2x4x64x64xf32>
    %cst_47 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %274 = stablehlo.reduce(%273 init: %cst_47) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %275 = stablehlo.broadcast_in_dim %274, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %276 = stablehlo.broadcast_in_dim %275, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x64xf32>
    %277 = stablehlo.divide %273, %276 : tensor<2x4x64x64xf32>
    %278 = stablehlo.dot_general %259, %277, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<2x4x64x64xf32>) -> tensor<2x4x8x64xf32>
    %279 = stablehlo.transpose %278, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xf32>) -> tensor<2x64x4x8xf32>
    %280 = stablehlo.dot_general %279, %arg41, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x64x32xf32>
    %281 = stablehlo.add %223, %280 : tensor<2x64x32xf32>
    %282 = stablehlo.broadcast_in_dim %arg40, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %283 = stablehlo.broadcast_in_dim %282, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %284 = stablehlo.add %281, %283 : tensor<2x64x32xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %285 = stablehlo.reduce(%284 init: %cst_48) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %286 = stablehlo.broadcast_in_dim %285, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_49 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %287 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %288 = stablehlo.divide %286, %287 : tensor<2x64x1xf32>
    %289 = stablehlo.broadcast_in_dim %288, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %290 = stablehlo.subtract %284, %289 : tensor<2x64x32xf32>
    %291 = stablehlo.multiply %290, %290 : tensor<2x64x32xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %292 = stablehlo.reduce(%291 init: %cst_50) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %293 = stablehlo.broadcast_in_dim %292, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_51 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %294 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %295 = stablehlo.divide %293, %294 : tensor<2x64x1xf32>
    %296 = stablehlo.broadcast_in_dim %288, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %297 = stablehlo.subtract %284, %296 : tensor<2x64x32xf32>
    %cst_52 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %298 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %299 = stablehlo.add %295, %298 : tensor<2x64x1xf32>
    %300 = stablehlo.rsqrt %299 : tensor<2x64x1xf32>
    %301 = stablehlo.broadcast_in_dim %300, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %302 = stablehlo.multiply %297, %301 : tensor<2x64x32xf32>
    %303 = stablehlo.broadcast_in_dim %arg39, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %304 = stablehlo.broadcast_in_dim %303, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %305 = stablehlo.multiply %302, %304 : tensor<2x64x32xf32>
    %306 = stablehlo.broadcast_in_dim %arg38, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %307 = stablehlo.broadcast_in_dim %306, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %308 = stablehlo.add %305, %307 : tensor<2x64x32xf32>
    %309 = stablehlo.dot_general %308, %arg45, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x128xf32>) -> tensor<2x64x128xf32>
    %310 = stablehlo.broadcast_in_dim %arg44, dims = [2] : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %311 = stablehlo.broadcast_in_dim %310, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x64x128xf32>
    %312 = stablehlo.add %309, %311 : tensor<2x64x128xf32>
    %313 = stablehlo.multiply %312, %312 : tensor<2x64x128xf32>
    %314 = stablehlo.multiply %313, %312 : tensor<2x64x128xf32>
    %cst_53 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %315 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %316 = stablehlo.multiply %315, %314 : tensor<2x64x128xf32>
    %317 = stablehlo.add %312, %316 : tensor<2x64x128xf32>
    %cst_54 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %318 = stablehlo.broadcast_in_dim %cst_54, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %319 = stablehlo.multiply %318, %317 : tensor<2x64x128xf32>
    %320 = stablehlo.tanh %319 : tensor<2x64x128xf32>
    %cst_55 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %321 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %322 = stablehlo.add %321, %320 : tensor<2x64x128xf32>
    %cst_56 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %323 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %324 = stablehlo.multiply %323, %322 : tensor<2x64x128xf32>
    %325 = stablehlo.multiply %312, %324 : tensor<2x64x128xf32>
    %326 = stablehlo.dot_general %325, %arg33, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
    %327 = stablehlo.broadcast_in_dim %arg32, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %328 = stablehlo.broadcast_in_dim %327, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %329 = stablehlo.add %326, %328 : tensor<2x64x32xf32>
    %330 = stablehlo.add %284, %329 : tensor<2x64x32xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %331 = stablehlo.reduce(%330 init: %cst_57) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %332 = stablehlo.broadcast_in_dim %331, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_58 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %333 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %334 = stablehlo.divide %332, %333 : tensor<2x64x1xf32>
    %335 = stablehlo.broadcast_in_dim %334, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %336 = stablehlo.subtract %330, %335 : tensor<2x64x32xf32>
    %337 = stablehlo.multiply %336, %336 : tensor<2x64x32xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %338 = stablehlo.reduce(%337 init: %cst_59) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %339 = stablehlo.broadcast_in_dim %338, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %cst_60 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %340 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %341 = stablehlo.divide %339, %340 : tensor<2x64x1xf32>
    %342 = stablehlo.broadcast_in_dim %334, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %343 = stablehlo.subtract %330, %342 : tensor<2x64x32xf32>
    %cst_61 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %344 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %345 = stablehlo.add %341, %344 : tensor<2x64x1xf32>
    %346 = stablehlo.rsqrt %345 : tensor<2x64x1xf32>
    %347 = stablehlo.broadcast_in_dim %346, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %348 = stablehlo.multiply %343, %347 : tensor<2x64x32xf32>
    %349 = stablehlo.broadcast_in_dim %arg49, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %350 = stablehlo.broadcast_in_dim %349, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %351 = stablehlo.multiply %348, %350 : tensor<2x64x32xf32>
    %352 = stablehlo.broadcast_in_dim %arg48, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %353 = stablehlo.broadcast_in_dim %352, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %354 = stablehlo.add %351, %353 : tensor<2x64x32xf32>
    %355 = stablehlo.dot_general %354, %arg51, contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<100x32xf32>) -> tensor<2x64x100xf32>
    return %355 : tensor<2x64x100xf32>
  }
  func.func private @_where(%arg0: tensor<64x64xi1>, %arg1: tensor<2x4x64x64xf32>, %arg2: tensor<f32>) -> tensor<2x4x64x64xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<64x64xi1>) -> tensor<2x4x64x64xi1>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x4x64x64xf32>
    %2 = stablehlo.select %0, %arg1, %1 : tensor<2x4x64x64xi1>, tensor<2x4x64x64xf32>
    return %2 : tensor<2x4x64x64xf32>
  }
}
