module @jit_llama attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<100x32xf32> loc("params['embedding']"), %arg1: tensor<32x100xf32> loc("params['head']"), %arg2: tensor<32xf32> loc("params['layers'][0]['attention_norm']"), %arg3: tensor<48x32xf32> loc("params['layers'][0]['down']"), %arg4: tensor<32x48xf32> loc("params['layers'][0]['gate']"), %arg5: tensor<32x2x8xf32> loc("params['layers'][0]['k']"), %arg6: tensor<32xf32> loc("params['layers'][0]['mlp_norm']"), %arg7: tensor<4x8x32xf32> loc("params['layers'][0]['out']"), %arg8: tensor<32x4x8xf32> loc("params['layers'][0]['q']"), %arg9: tensor<32x48xf32> loc("params['layers'][0]['up']"), %arg10: tensor<32x2x8xf32> loc("params['layers'][0]['v']"), %arg11: tensor<32xf32> loc("params['layers'][1]['attention_norm']"), %arg12: tensor<48x32xf32> loc("params['layers'][1]['down']"), %arg13: tensor<32x48xf32> loc("params['layers'][1]['gate']"), %arg14: tensor<32x2x8xf32> loc("params['layers'][1]['k']"), %arg15: tensor<32xf32> loc("params['layers'][1]['mlp_norm']"), %arg16: tensor<4x8x32xf32> loc("params['layers'][1]['out']"), %arg17: tensor<32x4x8xf32> loc("params['layers'][1]['q']"), %arg18: tensor<32x48xf32> loc("params['layers'][1]['up']"), %arg19: tensor<32x2x8xf32> loc("params['layers'][1]['v']"), %arg20: tensor<32xf32> loc("params['layers'][2]['attention_norm']"), %arg21: tensor<48x32xf32> loc("params['layers'][2]['down']"), %arg22: tensor<32x48xf32> loc("params['layers'][2]['gate']"), %arg23: tensor<32x2x8xf32> loc("params['layers'][2]['k']"), %arg24: tensor<32xf32> loc("params['layers'][2]['mlp_norm']"), %arg25: tensor<4x8x32xf32> loc("params['layers'][2]['out']"), %arg26: tensor<32x4x8xf32> loc("params['layers'][2]['q']"), %arg27: tensor<32x48xf32> loc("params['layers'][2]['up']"), %arg28: tensor<32x2x8xf32> loc("params['layers'][2]['v']"), %arg29: tensor<32xf32> loc("params['norm']"), %arg30: tensor<2x16xi32> loc("tokens")) -> (tensor<2x16x100xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x16xi32>
    %1 = stablehlo.compare LT, %arg30, %0, SIGNED : (tensor<2x16xi32>, tensor<2x16xi32>) -> tensor<2x16xi1>
    %c_0 = stablehlo.constant dense<100> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x16xi32>
    %3 = stablehlo.add %arg30, %2 : tensor<2x16xi32>
    %4 = stablehlo.select %1, %3, %arg30 : tensor<2x16xi1>, tensor<2x16xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xf32>, tensor<2x16x1xi32>) -> tensor<2x16x32xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<2x16x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %11 = stablehlo.divide %9, %10 : tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %13 = stablehlo.add %11, %12 : tensor<2x16x1xf32>
    %14 = stablehlo.rsqrt %13 : tensor<2x16x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %16 = stablehlo.multiply %6, %15 : tensor<2x16x32xf32>
    %17 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %19 = stablehlo.multiply %16, %18 : tensor<2x16x32xf32>
    %20 = stablehlo.dot_general %19, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x4x8xf32>) -> tensor<2x16x4x8xf32>
    %21 = stablehlo.dot_general %19, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x2x8xf32>) -> tensor<2x16x2x8xf32>
    %22 = stablehlo.dot_general %19, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x2x8xf32>) -> tensor<2x16x2x8xf32>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %23 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %24 = call @tril(%23) : (tensor<16x16xi1>) -> tensor<16x16xi1>
    %25 = stablehlo.iota dim = 0 : tensor<16xi32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %27 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_4 = stablehlo.constant dense<2> : tensor<i32>
    %28 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %29 = stablehlo.multiply %27, %28 : tensor<4xi32>
    %30 = stablehlo.convert %29 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_5 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %32 = stablehlo.divide %30, %31 : tensor<4xf32>
    %cst_6 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %34 = stablehlo.power %33, %32 : tensor<4xf32>
    %35 = stablehlo.convert %26 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %36 = stablehlo.broadcast_in_dim %34, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %37 = stablehlo.broadcast_in_dim %35, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x4xf32>
    %38 = stablehlo.broadcast_in_dim %36, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<16x4xf32>
    %39 = stablehlo.divide %37, %38 : tensor<16x4xf32>
    %40 = stablehlo.cosine %39 : tensor<16x4xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %42 = stablehlo.sine %39 : tensor<16x4xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %44 = stablehlo.concatenate %41, %41, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %45 = stablehlo.concatenate %43, %43, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %46 = stablehlo.slice %20 [0:2, 0:16, 0:4, 0:4] : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x4xf32>
    %47 = stablehlo.slice %20 [0:2, 0:16, 0:4, 4:8] : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x4xf32>
    %48 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x4x8xf32>
    %49 = stablehlo.multiply %20, %48 : tensor<2x16x4x8xf32>
    %50 = stablehlo.negate %47 : tensor<2x16x4x4xf32>
    %51 = stablehlo.concatenate %50, %46, dim = 3 : (tensor<2x16x4x4xf32>, tensor<2x16x4x4xf32>) -> tensor<2x16x4x8xf32>
    %52 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x4x8xf32>
    %53 = stablehlo.multiply %51, %52 : tensor<2x16x4x8xf32>
    %54 = stablehlo.add %49, %53 : tensor<2x16x4x8xf32>
    %55 = stablehlo.iota dim = 0 : tensor<16xi32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %57 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_7 = stablehlo.constant dense<2> : tensor<i32>
    %58 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %59 = stablehlo.multiply %57, %58 : tensor<4xi32>
    %60 = stablehlo.convert %59 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_8 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %61 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %62 = stablehlo.divide %60, %61 : tensor<4xf32>
    %cst_9 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %64 = stablehlo.power %63, %62 : tensor<4xf32>
    %65 = stablehlo.convert %56 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %66 = stablehlo.broadcast_in_dim %64, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %67 = stablehlo.broadcast_in_dim %65, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x4xf32>
    %68 = stablehlo.broadcast_in_dim %66, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<16x4xf32>
    %69 = stablehlo.divide %67, %68 : tensor<16x4xf32>
    %70 = stablehlo.cosine %69 : tensor<16x4xf32>
    %71 = stablehlo.broadcast_in_dim %70, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %72 = stablehlo.sine %69 : tensor<16x4xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %74 = stablehlo.concatenate %71, %71, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %75 = stablehlo.concatenate %73, %73, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %76 = stablehlo.slice %21 [0:2, 0:16, 0:2, 0:4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x4xf32>
    %77 = stablehlo.slice %21 [0:2, 0:16, 0:2, 4:8] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x4xf32>
    %78 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x2x8xf32>
    %79 = stablehlo.multiply %21, %78 : tensor<2x16x2x8xf32>
    %80 = stablehlo.negate %77 : tensor<2x16x2x4xf32>
    %81 = stablehlo.concatenate %80, %76, dim = 3 : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> tensor<2x16x2x8xf32>
    %82 = stablehlo.broadcast_in_dim %75, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x2x8xf32>
    %83 = stablehlo.multiply %81, %82 : tensor<2x16x2x8xf32>
    %84 = stablehlo.add %79, %83 : tensor<2x16x2x8xf32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
    %86 = stablehlo.reshape %85 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
    %87 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
    %88 = stablehlo.reshape %87 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
    %89 = stablehlo.dot_general %54, %86, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>) -> tensor<2x4x16x16xf32>
    %cst_10 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %90 = stablehlo.sqrt %cst_10 : tensor<f32>
    %91 = stablehlo.convert %90 : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
    %93 = stablehlo.divide %89, %92 : tensor<2x4x16x16xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %94 = call @_where(%24, %93, %cst_11) : (tensor<16x16xi1>, tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16x16xf32>
    %cst_12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_12) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %97 = stablehlo.maximum %96, %95 : tensor<2x4x16xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %100 = stablehlo.subtract %94, %99 : tensor<2x4x16x16xf32>
    %101 = stablehlo.exponential %100 : tensor<2x4x16x16xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %102 = stablehlo.reduce(%101 init: %cst_14) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %105 = stablehlo.divide %101, %104 : tensor<2x4x16x16xf32>
    %106 = stablehlo.dot_general %88, %105, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x8x16xf32>
    %107 = stablehlo.transpose %106, dims = [0, 3, 1, 2] : (tensor<2x4x8x16xf32>) -> tensor<2x16x4x8xf32>
    %108 = stablehlo.dot_general %107, %arg7, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x16x32xf32>
    %109 = stablehlo.add %6, %108 : tensor<2x16x32xf32>
    %110 = stablehlo.multiply %109, %109 : tensor<2x16x32xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %111 = stablehlo.reduce(%110 init: %cst_15) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %112 = stablehlo.broadcast_in_dim %111, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_16 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %113 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %114 = stablehlo.divide %112, %113 : tensor<2x16x1xf32>
    %cst_17 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %115 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %116 = stablehlo.add %114, %115 : tensor<2x16x1xf32>
    %117 = stablehlo.rsqrt %116 : tensor<2x16x1xf32>
    %118 = stablehlo.broadcast_in_dim %117, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %119 = stablehlo.multiply %109, %118 : tensor<2x16x32xf32>
    %120 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %122 = stablehlo.multiply %119, %121 : tensor<2x16x32xf32>
    %123 = stablehlo.dot_general %122, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %124 = call @silu(%123) : (tensor<2x16x48xf32>) -> tensor<2x16x48xf32>
    %125 = stablehlo.dot_general %122, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %126 = stablehlo.multiply %124, %125 : tensor<2x16x48xf32>
    %127 = stablehlo.dot_general %126, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x48xf32>, tensor<48x32xf32>) -> tensor<2x16x32xf32>
    %128 = stablehlo.add %109, %127 : tensor<2x16x32xf32>
    %129 = stablehlo.multiply %128, %128 : tensor<2x16x32xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %130 = stablehlo.reduce(%129 init: %cst_18) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %131 = stablehlo.broadcast_in_dim %130, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_19 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %132 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %133 = stablehlo.divide %131, %132 : tensor<2x16x1xf32>
    %cst_20 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %134 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %135 = stablehlo.add %133, %134 : tensor<2x16x1xf32>
    %136 = stablehlo.rsqrt %135 : tensor<2x16x1xf32>
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %138 = stablehlo.multiply %128, %137 : tensor<2x16x32xf32>
    %139 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %140 = stablehlo.broadcast_in_dim %139, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %141 = stablehlo.multiply %138, %140 : tensor<2x16x32xf32>
    %142 = stablehlo.dot_general %141, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x4x8xf32>) -> tensor<2x16x4x8xf32>
    %143 = stablehlo.dot_general %141, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x2x8xf32>) -> tensor<2x16x2x8xf32>
    %144 = stablehlo.dot_general %141, %arg19, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x2x8xf32>) -> tensor<2x16x2x8xf32>
    %c_21 = stablehlo.constant dense<true> : tensor<i1>
    %145 = stablehlo.broadcast_in_dim %c_21, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %146 = call @tril(%145) : (tensor<16x16xi1>) -> tensor<16x16xi1>
    %147 = stablehlo.iota dim = 0 : tensor<16xi32>
    %148 = stablehlo.broadcast_in_dim %147, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %149 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_22 = stablehlo.constant dense<2> : tensor<i32>
    %150 = stablehlo.broadcast_in_dim %c_22, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %151 = stablehlo.multiply %149, %150 : tensor<4xi32>
    %152 = stablehlo.convert %151 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_23 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %153 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %154 = stablehlo.divide %152, %153 : tensor<4xf32>
    %cst_24 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %155 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %156 = stablehlo.power %155, %154 : tensor<4xf32>
    %157 = stablehlo.convert %148 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %158 = stablehlo.broadcast_in_dim %156, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %159 = stablehlo.broadcast_in_dim %157, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x4xf32>
    %160 = stablehlo.broadcast_in_dim %158, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<16x4xf32>
    %161 = stablehlo.divide %159, %160 : tensor<16x4xf32>
    %162 = stablehlo.cosine %161 : tensor<16x4xf32>
    %163 = stablehlo.broadcast_in_dim %162, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %164 = stablehlo.sine %161 : tensor<16x4xf32>
    %165 = stablehlo.broadcast_in_dim %164, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %166 = stablehlo.concatenate %163, %163, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %167 = stablehlo.concatenate %165, %165, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %168 = stablehlo.slice %142 [0:2, 0:16, 0:4, 0:4] : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x4xf32>
    %169 = stablehlo.slice %142 [0:2, 0:16, 0:4, 4:8] : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x4xf32>
    %170 = stablehlo.broadcast_in_dim %166, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x4x8xf32>
    %171 = stablehlo.multiply %142, %170 : tensor<2x16x4x8xf32>
    %172 = stablehlo.negate %169 : tensor<2x16x4x4xf32>
    %173 = stablehlo.concatenate %172, %168, dim = 3 : (tensor<2x16x4x4xf32>, tensor<2x16x4x4xf32>) -> tensor<2x16x4x8xf32>
    %174 = stablehlo.broadcast_in_dim %167, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x4x8xf32>
    %175 = stablehlo.multiply %173, %174 : tensor<2x16x4x8xf32>
    %176 = stablehlo.add %171, %175 : tensor<2x16x4x8xf32>
    %177 = stablehlo.iota dim = 0 : tensor<16xi32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %179 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_25 = stablehlo.constant dense<2> : tensor<i32>
    %180 = stablehlo.broadcast_in_dim %c_25, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %181 = stablehlo.multiply %179, %180 : tensor<4xi32>
    %182 = stablehlo.convert %181 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_26 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %183 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %184 = stablehlo.divide %182, %183 : tensor<4xf32>
    %cst_27 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %185 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %186 = stablehlo.power %185, %184 : tensor<4xf32>
    %187 = stablehlo.convert %178 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %188 = stablehlo.broadcast_in_dim %186, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %189 = stablehlo.broadcast_in_dim %187, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x4xf32>
    %190 = stablehlo.broadcast_in_dim %188, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<16x4xf32>
    %191 = stablehlo.divide %189, %190 : tensor<16x4xf32>
    %192 = stablehlo.cosine %191 : tensor<16x4xf32>
    %193 = stablehlo.broadcast_in_dim %192, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %194 = stablehlo.sine %191 : tensor<16x4xf32>
    %195 = stablehlo.broadcast_in_dim %194, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %196 = stablehlo.concatenate %193, %193, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %197 = stablehlo.concatenate %195, %195, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %198 = stablehlo.slice %143 [0:2, 0:16, 0:2, 0:4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x4xf32>
    %199 = stablehlo.slice %143 [0:2, 0:16, 0:2, 4:8] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x4xf32>
    %200 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x2x8xf32>
    %201 = stablehlo.multiply %143, %200 : tensor<2x16x2x8xf32>
    %202 = stablehlo.negate %199 : tensor<2x16x2x4xf32>
    %203 = stablehlo.concatenate %202, %198, dim = 3 : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> tensor<2x16x2x8xf32>
    %204 = stablehlo.broadcast_in_dim %197, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x2x8xf32>
    %205 = stablehlo.multiply %203, %204 : tensor<2x16x2x8xf32>
    %206 = stablehlo.add %201, %205 : tensor<2x16x2x8xf32>
    %207 = stablehlo.broadcast_in_dim %206, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
    %208 = stablehlo.reshape %207 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
    %209 = stablehlo.broadcast_in_dim %144, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
    %210 = stablehlo.reshape %209 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
    %211 = stablehlo.dot_general %176, %208, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>) -> tensor<2x4x16x16xf32>
    %cst_28 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %212 = stablehlo.sqrt %cst_28 : tensor<f32>
    %213 = stablehlo.convert %212 : tensor<f32>
    %214 = stablehlo.broadcast_in_dim %213, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
    %215 = stablehlo.divide %211, %214 : tensor<2x4x16x16xf32>
    %cst_29 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %216 = call @_where(%146, %215, %cst_29) : (tensor<16x16xi1>, tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16x16xf32>
    %cst_30 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %217 = stablehlo.reduce(%216 init: %cst_30) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_31 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %218 = stablehlo.broadcast_in_dim %cst_31, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %219 = stablehlo.maximum %218, %217 : tensor<2x4x16xf32>
    %220 = stablehlo.broadcast_in_dim %219, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %221 = stablehlo.broadcast_in_dim %220, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %222 = stablehlo.subtract %216, %221 : tensor<2x4x16x16xf32>
    %223 = stablehlo.exponential %222 : tensor<2x4x16x16xf32>
    %cst_32 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %224 = stablehlo.reduce(%223 init: %cst_32) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %225 = stablehlo.broadcast_in_dim %224, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %226 = stablehlo.broadcast_in_dim %225, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %227 = stablehlo.divide %223, %226 : tensor<2x4x16x16xf32>
    %228 = stablehlo.dot_general %210, %227, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x8x16xf32>
    %229 = stablehlo.transpose %228, dims = [0, 3, 1, 2] : (tensor<2x4x8x16xf32>) -> tensor<2x16x4x8xf32>
    %230 = stablehlo.dot_general %229, %arg16, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x16x32xf32>
    %231 = stablehlo.add %128, %230 : tensor<2x16x32xf32>
    %232 = stablehlo.multiply %231, %231 : tensor<2x16x32xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %233 = stablehlo.reduce(%232 init: %cst_33) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %234 = stablehlo.broadcast_in_dim %233, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_34 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %235 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %236 = stablehlo.divide %234, %235 : tensor<2x16x1xf32>
    %cst_35 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %238 = stablehlo.add %236, %237 : tensor<2x16x1xf32>
    %239 = stablehlo.rsqrt %238 : tensor<2x16x1xf32>
    %240 = stablehlo.broadcast_in_dim %239, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %241 = stablehlo.multiply %231, %240 : tensor<2x16x32xf32>
    %242 = stablehlo.broadcast_in_dim %arg15, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %243 = stablehlo.broadcast_in_dim %242, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %244 = stablehlo.multiply %241, %243 : tensor<2x16x32xf32>
    %245 = stablehlo.dot_general %244, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %246 = call @silu(%245) : (tensor<2x16x48xf32>) -> tensor<2x16x48xf32>
    %247 = stablehlo.dot_general %244, %arg18, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %248 = stablehlo.multiply %246, %247 : tensor<2x16x48xf32>
    %249 = stablehlo.dot_general %248, %arg12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x48xf32>, tensor<48x32xf32>) -> tensor<2x16x32xf32>
    %250 = stablehlo.add %231, %249 : tensor<2x16x32xf32>
    %251 = stablehlo.multiply %250, %250 : tensor<2x16x32xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %252 = stablehlo.reduce(%251 init: %cst_36) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %253 = stablehlo.broadcast_in_dim %252, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_37 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %255 = stablehlo.divide %253, %254 : tensor<2x16x1xf32>
    %cst_38 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %256 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %257 = stablehlo.add %255, %256 : tensor<2x16x1xf32>
    %258 = stablehlo.rsqrt %257 : tensor<2x16x1xf32>
    %259 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %260 = stablehlo.multiply %250, %259 : tensor<2x16x32xf32>
    %261 = stablehlo.broadcast_in_dim %arg20, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %262 = stablehlo.broadcast_in_dim %261, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %263 = stablehlo.multiply %260, %262 : tensor<2x16x32xf32>
    %264 = stablehlo.dot_general %263, %arg26, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x4x8xf32>) -> tensor<2x16x4x8xf32>
    %265 = stablehlo.dot_general %263, %arg23, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x2x8xf32>) -> tensor<2x16x2x8xf32>
    %266 = stablehlo.dot_general %263, %arg28, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x2x8xf32>) -> tensor<2x16x2x8xf32>
    %c_39 = stablehlo.constant dense<true> : tensor<i1>
    %267 = stablehlo.broadcast_in_dim %c_39, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %268 = call @tril(%267) : (tensor<16x16xi1>) -> tensor<16x16xi1>
    %269 = stablehlo.iota dim = 0 : tensor<16xi32>
    %270 = stablehlo.broadcast_in_dim %269, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %271 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_40 = stablehlo.constant dense<2> : tensor<i32>
    %272 = stablehlo.broadcast_in_dim %c_40, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %273 = stablehlo.multiply %271, %272 : tensor<4xi32>
    %274 = stablehlo.convert %273 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_41 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %275 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %276 = stablehlo.divide %274, %275 : tensor<4xf32>
    %cst_42 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %277 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %278 = stablehlo.power %277, %276 : tensor<4xf32>
    %279 = stablehlo.convert %270 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %280 = stablehlo.broadcast_in_dim %278, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %281 = stablehlo.broadcast_in_dim %279, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x4xf32>
    %282 = stablehlo.broadcast_in_dim %280, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<16x4xf32>
    %283 = stablehlo.divide %281, %282 : tensor<16x4xf32>
    %284 = stablehlo.cosine %283 : tensor<16x4xf32>
    %285 = stablehlo.broadcast_in_dim %284, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %286 = stablehlo.sine %283 : tensor<16x4xf32>
    %287 = stablehlo.broadcast_in_dim %286, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %288 = stablehlo.concatenate %285, %285, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %289 = stablehlo.concatenate %287, %287, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %290 = stablehlo.slice %264 [0:2, 0:16, 0:4, 0:4] : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x4xf32>
    %291 = stablehlo.slice %264 [0:2, 0:16, 0:4, 4:8] : (tensor<2x16x4x8xf32>) -> tensor<2x16x4x4xf32>
    %292 = stablehlo.broadcast_in_dim %288, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x4x8xf32>
    %293 = stablehlo.multiply %264, %292 : tensor<2x16x4x8xf32>
    %294 = stablehlo.negate %291 : tensor<2x16x4x4xf32>
    %295 = stablehlo.concatenate %294, %290, dim = 3 : (tensor<2x16x4x4xf32>, tensor<2x16x4x4xf32>) -> tensor<2x16x4x8xf32>
    %296 = stablehlo.broadcast_in_dim %289, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x4x8xf32>
    %297 = stablehlo.multiply %295, %296 : tensor<2x16x4x8xf32>
    %298 = stablehlo.add %293, %297 : tensor<2x16x4x8xf32>
    %299 = stablehlo.iota dim = 0 : tensor<16xi32>
    %300 = stablehlo.broadcast_in_dim %299, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %301 = stablehlo.iota dim = 0 : tensor<4xi32>
    %c_43 = stablehlo.constant dense<2> : tensor<i32>
    %302 = stablehlo.broadcast_in_dim %c_43, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %303 = stablehlo.multiply %301, %302 : tensor<4xi32>
    %304 = stablehlo.convert %303 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_44 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %305 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %306 = stablehlo.divide %304, %305 : tensor<4xf32>
    %cst_45 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %307 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %308 = stablehlo.power %307, %306 : tensor<4xf32>
    %309 = stablehlo.convert %300 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %310 = stablehlo.broadcast_in_dim %308, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %311 = stablehlo.broadcast_in_dim %309, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x4xf32>
    %312 = stablehlo.broadcast_in_dim %310, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<16x4xf32>
    %313 = stablehlo.divide %311, %312 : tensor<16x4xf32>
    %314 = stablehlo.cosine %313 : tensor<16x4xf32>
    %315 = stablehlo.broadcast_in_dim %314, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %316 = stablehlo.sine %313 : tensor<16x4xf32>
    %317 = stablehlo.broadcast_in_dim %316, dims = [1, 3] : (tensor<16x4xf32>) -> tensor<1x16x1x4xf32>
    %318 = stablehlo.concatenate %315, %315, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %319 = stablehlo.concatenate %317, %317, dim = 3 : (tensor<1x16x1x4xf32>, tensor<1x16x1x4xf32>) -> tensor<1x16x1x8xf32>
    %320 = stablehlo.slice %265 [0:2, 0:16, 0:2, 0:4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x4xf32>
    %321 = stablehlo.slice %265 [0:2, 0:16, 0:2, 4:8] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x4xf32>
    %322 = stablehlo.broadcast_in_dim %318, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x2x8xf32>
    %323 = stablehlo.multiply %265, %322 : tensor<2x16x2x8xf32>
    %324 = stablehlo.negate %321 : tensor<2x16x2x4xf32>
    %325 = stablehlo.concatenate %324, %320, dim = 3 : (tensor<2x16x2x4xf32>, tensor<2x16x2x4xf32>) -> tensor<2x16x2x8xf32>
    %326 = stablehlo.broadcast_in_dim %319, dims = [0, 1, 2, 3] : (tensor<1x16x1x8xf32>) -> tensor<2x16x2x8xf32>
    %327 = stablehlo.multiply %325, %326 : tensor<2x16x2x8xf32>
    %328 = stablehlo.add %323, %327 : tensor<2x16x2x8xf32>
    %329 = stablehlo.broadcast_in_dim %328, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
    %330 = stablehlo.reshape %329 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
    %331 = stablehlo.broadcast_in_dim %266, dims = [0, 1, 2, 4] : (tensor<2x16x2x8xf32>) -> tensor<2x16x2x2x8xf32>
    %332 = stablehlo.reshape %331 : (tensor<2x16x2x2x8xf32>) -> tensor<2x16x4x8xf32>
    %333 = stablehlo.dot_general %298, %330, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<2x16x4x8xf32>) -> tensor<2x4x16x16xf32>
    %cst_46 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %334 = stablehlo.sqrt %cst_46 : tensor<f32>
    %335 = stablehlo.convert %334 : tensor<f32>
    %336 = stablehlo.broadcast_in_dim %335, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
    %337 = stablehlo.divide %333, %336 : tensor<2x4x16x16xf32>
    %cst_47 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %338 = call @_where(%268, %337, %cst_47) : (tensor<16x16xi1>, tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16x16xf32>
    %cst_48 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %339 = stablehlo.reduce(%338 init: %cst_48) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %cst_49 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %340 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %341 = stablehlo.maximum %340, %339 : tensor<2x4x16xf32>
    %342 = stablehlo.broadcast_in_dim %341, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %343 = stablehlo.broadcast_in_dim %342, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %344 = stablehlo.subtract %338, %343 : tensor<2x4x16x16xf32>
    %345 = stablehlo.exponential %344 : tensor<2x4x16x16xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %346 = stablehlo.reduce(%345 init: %cst_50) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x16xf32>
    %347 = stablehlo.broadcast_in_dim %346, dims = [0, 1, 2] : (tensor<2x4x16xf32>) -> tensor<2x4x16x1xf32>
    %348 = stablehlo.broadcast_in_dim %347, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf32>) -> tensor<2x4x16x16xf32>
    %349 = stablehlo.divide %345, %348 : tensor<2x4x16x16xf32>
    %350 = stablehlo.dot_general %332, %349, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x8x16xf32>
    %351 = stablehlo.transpose %350, dims = [0, 3, 1, 2] : (tensor<2x4x8x16xf32>) -> tensor<2x16x4x8xf32>
    %352 = stablehlo.dot_general %351, %arg25, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x16x32xf32>
    %353 = stablehlo.add %250, %352 : tensor<2x16x32xf32>
    %354 = stablehlo.multiply %353, %353 : tensor<2x16x32xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %355 = stablehlo.reduce(%354 init: %cst_51) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %356 = stablehlo.broadcast_in_dim %355, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_52 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %357 = stablehlo.broadcast_in_dim %cst_52, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %358 = stablehlo.divide %356, %357 : tensor<2x16x1xf32>
    %cst_53 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %359 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %360 = stablehlo.add %358, %359 : tensor<2x16x1xf32>
    %361 = stablehlo.rsqrt %360 : tensor<2x16x1xf32>
    %362 = stablehlo.broadcast_in_dim %361, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %363 = stablehlo.multiply %353, %362 : tensor<2x16x32xf32>
    %364 = stablehlo.broadcast_in_dim %arg24, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %365 = stablehlo.broadcast_in_dim %364, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %366 = stablehlo.multiply %363, %365 : tensor<2x16x32xf32>
    %367 = stablehlo.dot_general %366, %arg22, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %368 = call @silu(%367) : (tensor<2x16x48xf32>) -> tensor<2x16x48xf32>
    %369 = stablehlo.dot_general %366, %arg27, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x48xf32>) -> tensor<2x16x48xf32>
    %370 = stablehlo.multiply %368, %369 : tensor<2x16x48xf32>
    %371 = stablehlo.dot_general %370, %arg21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x48xf32>, tensor<48x32xf32>) -> tensor<2x16x32xf32>
    %372 = stablehlo.add %353, %371 : tensor<2x16x32xf32>
    %373 = stablehlo.multiply %372, %372 : tensor<2x16x32xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %374 = stablehlo.reduce(%373 init: %cst_54) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %375 = stablehlo.broadcast_in_dim %374, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_55 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %376 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %377 = stablehlo.divide %375, %376 : tensor<2x16x1xf32>
    %cst_56 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %379 = stablehlo.add %377, %378 : tensor<2x16x1xf32>
    %380 = stablehlo.rsqrt %379 : tensor<2x16x1xf32>
    %381 = stablehlo.broadcast_in_dim %380, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %382 = stablehlo.multiply %372, %381 : tensor<2x16x32xf32>
    %383 = stablehlo.broadcast_in_dim %arg29, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %384 = stablehlo.broadcast_in_dim %383, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x16x32xf32>
    %385 = stablehlo.multiply %382, %384 : tensor<2x16x32xf32>
    %386 = stablehlo.dot_general %385, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf32>, tensor<32x100xf32>) -> tensor<2x16x100xf32>
    return %386 : tensor<2x16x100xf32>
  }
  func.func private @tril(%arg0: tensor<16x16xi1>) -> tensor<16x16xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<16x16xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<16x16xi32>
    %2 = stablehlo.add %0, %1 : tensor<16x16xi32>
    %3 = stablehlo.iota dim = 1 : tensor<16x16xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<16x16xi32>, tensor<16x16xi32>) -> tensor<16x16xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<16x16xi1>, tensor<16x16xi1>
    return %6 : tensor<16x16xi1>
  }
  func.func private @_where(%arg0: tensor<16x16xi1>, %arg1: tensor<2x4x16x16xf32>, %arg2: tensor<f32>) -> tensor<2x4x16x16xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<2x4x16x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x16x16xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x16x16xi1>, tensor<2x4x16x16xf32>
    return %3 : tensor<2x4x16x16xf32>
  }
  func.func private @silu(%arg0: tensor<2x16x48xf32>) -> tensor<2x16x48xf32> {
    %0 = stablehlo.negate %arg0 : tensor<2x16x48xf32>
    %1 = stablehlo.exponential %0 : tensor<2x16x48xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x48xf32>
    %3 = stablehlo.add %2, %1 : tensor<2x16x48xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x48xf32>
    %5 = stablehlo.divide %4, %3 : tensor<2x16x48xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x16x48xf32>
    return %6 : tensor<2x16x48xf32>
  }
}
