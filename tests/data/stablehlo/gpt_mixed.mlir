module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128xf32> loc("variables['params']['Dense_0']['bias']"), %arg1: tensor<32x128xf32> loc("variables['params']['Dense_0']['kernel']"), %arg2: tensor<32xf32> loc("variables['params']['Dense_1']['bias']"), %arg3: tensor<128x32xf32> loc("variables['params']['Dense_1']['kernel']"), %arg4: tensor<128xf32> loc("variables['params']['Dense_2']['bias']"), %arg5: tensor<32x128xf32> loc("variables['params']['Dense_2']['kernel']"), %arg6: tensor<32xf32> loc("variables['params']['Dense_3']['bias']"), %arg7: tensor<128x32xf32> loc("variables['params']['Dense_3']['kernel']"), %arg8: tensor<128xf32> loc("variables['params']['Dense_4']['bias']"), %arg9: tensor<32x128xf32> loc("variables['params']['Dense_4']['kernel']"), %arg10: tensor<32xf32> loc("variables['params']['Dense_5']['bias']"), %arg11: tensor<128x32xf32> loc("variables['params']['Dense_5']['kernel']"), %arg12: tensor<100x32xf32> loc("variables['params']['Embed_0']['embedding']"), %arg13: tensor<32xf32> loc("variables['params']['LayerNorm_0']['bias']"), %arg14: tensor<32xf32> loc("variables['params']['LayerNorm_0']['scale']"), %arg15: tensor<32xf32> loc("variables['params']['LayerNorm_1']['bias']"), %arg16: tensor<32xf32> loc("variables['params']['LayerNorm_1']['scale']"), %arg17: tensor<32xf32> loc("variables['params']['LayerNorm_2']['bias']"), %arg18: tensor<32xf32> loc("variables['params']['LayerNorm_2']['scale']"), %arg19: tensor<32xf32> loc("variables['params']['LayerNorm_3']['bias']"), %arg20: tensor<32xf32> loc("variables['params']['LayerNorm_3']['scale']"), %arg21: tensor<32xf32> loc("variables['params']['LayerNorm_4']['bias']"), %arg22: tensor<32xf32> loc("variables['params']['LayerNorm_4']['scale']"), %arg23: tensor<32xf32> loc("variables['params']['LayerNorm_5']['bias']"), %arg24: tensor<32xf32> loc("variables['params']['LayerNorm_5']['scale']"), %arg25: tensor<32xf32> loc("variables['params']['LayerNorm_6']['bias']"), %arg26: tensor<32xf32> loc("variables['params']['LayerNorm_6']['scale']"), %arg27: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['key']['bias']"), %arg28: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['key']['kernel']"), %arg29: tensor<32xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['out']['bias']"), %arg30: tensor<4x8x32xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['out']['kernel']"), %arg31: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['query']['bias']"), %arg32: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['query']['kernel']"), %arg33: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['value']['bias']"), %arg34: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_0']['value']['kernel']"), %arg35: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['key']['bias']"), %arg36: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['key']['kernel']"), %arg37: tensor<32xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['out']['bias']"), %arg38: tensor<4x8x32xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['out']['kernel']"), %arg39: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['query']['bias']"), %arg40: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['query']['kernel']"), %arg41: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['value']['bias']"), %arg42: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_1']['value']['kernel']"), %arg43: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['key']['bias']"), %arg44: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['key']['kernel']"), %arg45: tensor<32xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['out']['bias']"), %arg46: tensor<4x8x32xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['out']['kernel']"), %arg47: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['query']['bias']"), %arg48: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['query']['kernel']"), %arg49: tensor<4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['value']['bias']"), %arg50: tensor<32x4x8xf32> loc("variables['params']['MultiHeadDotProductAttention_2']['value']['kernel']"), %arg51: tensor<64x32xf32> loc("variables['params']['positions']"), %arg52: tensor<2x64xi32> loc("x")) -> (tensor<2x64x100xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.convert %arg12 : (tensor<100x32xf32>) -> tensor<100x32xbf16>
    %1 = call @_take(%0, %arg52) : (tensor<100x32xbf16>, tensor<2x64xi32>) -> tensor<2x64x32xbf16>
    %2 = stablehlo.convert %arg51 : (tensor<64x32xf32>) -> tensor<64x32xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1, 2] : (tensor<64x32xbf16>) -> tensor<1x64x32xbf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x64x32xbf16>) -> tensor<2x64x32xbf16>
    %5 = stablehlo.add %1, %4 : tensor<2x64x32xbf16>
    %6 = stablehlo.iota dim = 0 : tensor<64xi32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [1] : (tensor<64xi32>) -> tensor<2x64xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [0, 2] : (tensor<2x64xi32>) -> tensor<2x1x64xi32>
    %10 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x64xi32>
    %11 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x1x64xi32>) -> tensor<2x64x64xi32>
    %12 = stablehlo.compare GE, %10, %11, SIGNED : (tensor<2x64x64xi32>, tensor<2x64x64xi32>) -> tensor<2x64x64xi1>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 2, 3] : (tensor<2x64x64xi1>) -> tensor<2x1x64x64xi1>
    %14 = stablehlo.convert %13 : (tensor<2x1x64x64xi1>) -> tensor<2x1x64x64xf32>
    %15 = stablehlo.convert %5 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %16 = chlo.square %15 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%15 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %19 = stablehlo.divide %17, %18 : tensor<2x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%16 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_2 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %22 = stablehlo.divide %20, %21 : tensor<2x64xf32>
    %23 = chlo.square %19 : tensor<2x64xf32> -> tensor<2x64xf32>
    %24 = stablehlo.subtract %22, %23 : tensor<2x64xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %26 = stablehlo.maximum %25, %24 : tensor<2x64xf32>
    %27 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %29 = stablehlo.convert %5 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %30 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %31 = stablehlo.subtract %29, %30 : tensor<2x64x32xf32>
    %cst_4 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %32 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %33 = stablehlo.add %28, %32 : tensor<2x64x1xf32>
    %34 = stablehlo.rsqrt %33 : tensor<2x64x1xf32>
    %35 = stablehlo.reshape %arg14 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %36 = stablehlo.broadcast_in_dim %34, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %37 = stablehlo.broadcast_in_dim %35, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %38 = stablehlo.multiply %36, %37 : tensor<2x64x32xf32>
    %39 = stablehlo.multiply %31, %38 : tensor<2x64x32xf32>
    %40 = stablehlo.reshape %arg13 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %42 = stablehlo.add %39, %41 : tensor<2x64x32xf32>
    %43 = stablehlo.convert %42 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %44 = stablehlo.convert %arg32 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %45 = stablehlo.convert %arg31 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %46 = stablehlo.dot_general %43, %44, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %47 = stablehlo.reshape %45 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %49 = stablehlo.add %46, %48 : tensor<2x64x4x8xbf16>
    %50 = stablehlo.convert %arg28 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %51 = stablehlo.convert %arg27 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %52 = stablehlo.dot_general %43, %50, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %53 = stablehlo.reshape %51 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %55 = stablehlo.add %52, %54 : tensor<2x64x4x8xbf16>
    %56 = stablehlo.convert %arg34 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %57 = stablehlo.convert %arg33 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %58 = stablehlo.dot_general %43, %56, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %59 = stablehlo.reshape %57 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %61 = stablehlo.add %58, %60 : tensor<2x64x4x8xbf16>
    %cst_5 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %62 = stablehlo.sqrt %cst_5 : tensor<f32>
    %63 = stablehlo.convert %62 : (tensor<f32>) -> tensor<bf16>
    %64 = stablehlo.broadcast_in_dim %63, dims = [] : (tensor<bf16>) -> tensor<2x64x4x8xbf16>
    %65 = stablehlo.divide %49, %64 : tensor<2x64x4x8xbf16>
    %66 = stablehlo.dot_general %65, %55, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x64x4x8xbf16>) -> tensor<2x4x64x64xbf16>
    %cst_6 = stablehlo.constant dense<-3.389530e+38> : tensor<bf16>
    %67 = call @_where_0(%14, %66, %cst_6) : (tensor<2x1x64x64xf32>, tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %cst_7 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %68 = stablehlo.reduce(%67 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64xbf16>
    %cst_8 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %69 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<bf16>) -> tensor<2x4x64xbf16>
    %70 = stablehlo.maximum %69, %68 : tensor<2x4x64xbf16>
    %71 = stablehlo.broadcast_in_dim %70, dims = [0, 1, 2] : (tensor<2x4x64xbf16>) -> tensor<2x4x64x1xbf16>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %73 = stablehlo.subtract %67, %72 : tensor<2x4x64x64xbf16>
    %74 = stablehlo.exponential %73 : tensor<2x4x64x64xbf16>
    %75 = stablehlo.convert %74 : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x64xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %78 = stablehlo.convert %77 : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x1xbf16>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %80 = stablehlo.divide %74, %79 : tensor<2x4x64x64xbf16>
    %81 = stablehlo.dot_general %61, %80, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x4x64x64xbf16>) -> tensor<2x4x8x64xbf16>
    %82 = stablehlo.transpose %81, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xbf16>) -> tensor<2x64x4x8xbf16>
    %83 = stablehlo.convert %arg30 : (tensor<4x8x32xf32>) -> tensor<4x8x32xbf16>
    %84 = stablehlo.convert %arg29 : (tensor<32xf32>) -> tensor<32xbf16>
    %85 = stablehlo.dot_general %82, %83, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<4x8x32xbf16>) -> tensor<2x64x32xbf16>
    %86 = stablehlo.reshape %84 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %87 = stablehlo.broadcast_in_dim %86, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %88 = stablehlo.add %85, %87 : tensor<2x64x32xbf16>
    %89 = stablehlo.add %5, %88 : tensor<2x64x32xbf16>
    %90 = stablehlo.convert %89 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %91 = chlo.square %90 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %92 = stablehlo.reduce(%90 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_11 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %93 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %94 = stablehlo.divide %92, %93 : tensor<2x64xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %95 = stablehlo.reduce(%91 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_13 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %97 = stablehlo.divide %95, %96 : tensor<2x64xf32>
    %98 = chlo.square %94 : tensor<2x64xf32> -> tensor<2x64xf32>
    %99 = stablehlo.subtract %97, %98 : tensor<2x64xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %101 = stablehlo.maximum %100, %99 : tensor<2x64xf32>
    %102 = stablehlo.broadcast_in_dim %94, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %103 = stablehlo.broadcast_in_dim %101, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %104 = stablehlo.convert %89 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %105 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %106 = stablehlo.subtract %104, %105 : tensor<2x64x32xf32>
    %cst_15 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %107 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %108 = stablehlo.add %103, %107 : tensor<2x64x1xf32>
    %109 = stablehlo.rsqrt %108 : tensor<2x64x1xf32>
    %110 = stablehlo.reshape %arg16 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %111 = stablehlo.broadcast_in_dim %109, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %112 = stablehlo.broadcast_in_dim %110, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %113 = stablehlo.multiply %111, %112 : tensor<2x64x32xf32>
    %114 = stablehlo.multiply %106, %113 : tensor<2x64x32xf32>
    %115 = stablehlo.reshape %arg15 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %117 = stablehlo.add %114, %116 : tensor<2x64x32xf32>
    %118 = stablehlo.convert %117 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %119 = stablehlo.convert %arg1 : (tensor<32x128xf32>) -> tensor<32x128xbf16>
    %120 = stablehlo.convert %arg0 : (tensor<128xf32>) -> tensor<128xbf16>
    %121 = stablehlo.dot_general %118, %119, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x128xbf16>) -> tensor<2x64x128xbf16>
    %122 = stablehlo.reshape %120 : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %123 = stablehlo.broadcast_in_dim %122, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<2x64x128xbf16>
    %124 = stablehlo.add %121, %123 : tensor<2x64x128xbf16>
    %125 = stablehlo.multiply %124, %124 : tensor<2x64x128xbf16>
    %126 = stablehlo.multiply %125, %124 : tensor<2x64x128xbf16>
    %cst_16 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %127 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %128 = stablehlo.multiply %127, %126 : tensor<2x64x128xbf16>
    %129 = stablehlo.add %124, %128 : tensor<2x64x128xbf16>
    %cst_17 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %130 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %131 = stablehlo.multiply %130, %129 : tensor<2x64x128xbf16>
    %132 = stablehlo.tanh %131 : tensor<2x64x128xbf16>
    %cst_18 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %133 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %134 = stablehlo.add %133, %132 : tensor<2x64x128xbf16>
    %cst_19 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %135 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %136 = stablehlo.multiply %135, %134 : tensor<2x64x128xbf16>
    %137 = stablehlo.multiply %124, %136 : tensor<2x64x128xbf16>
    %138 = stablehlo.convert %arg3 : (tensor<128x32xf32>) -> tensor<128x32xbf16>
    %139 = stablehlo.convert %arg2 : (tensor<32xf32>) -> tensor<32xbf16>
    %140 = stablehlo.dot_general %137, %138, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<128x32xbf16>) -> tensor<2x64x32xbf16>
    %141 = stablehlo.reshape %139 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %142 = stablehlo.broadcast_in_dim %141, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %143 = stablehlo.add %140, %142 : tensor<2x64x32xbf16>
    %144 = stablehlo.add %89, %143 : tensor<2x64x32xbf16>
    %145 = stablehlo.convert %144 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %146 = chlo.square %145 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %147 = stablehlo.reduce(%145 init: %cst_20) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_21 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %148 = stablehlo.broadcast_in_dim %cst_21, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %149 = stablehlo.divide %147, %148 : tensor<2x64xf32>
    %cst_22 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %150 = stablehlo.reduce(%146 init: %cst_22) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_23 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %151 = stablehlo.broadcast_in_dim %cst_23, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %152 = stablehlo.divide %150, %151 : tensor<2x64xf32>
    %153 = chlo.square %149 : tensor<2x64xf32> -> tensor<2x64xf32>
    %154 = stablehlo.subtract %152, %153 : tensor<2x64xf32>
    %cst_24 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %155 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %156 = stablehlo.maximum %155, %154 : tensor<2x64xf32>
    %157 = stablehlo.broadcast_in_dim %149, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %158 = stablehlo.broadcast_in_dim %156, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %159 = stablehlo.convert %144 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %160 = stablehlo.broadcast_in_dim %157, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %161 = stablehlo.subtract %159, %160 : tensor<2x64x32xf32>
    %cst_25 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %162 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %163 = stablehlo.add %158, %162 : tensor<2x64x1xf32>
    %164 = stablehlo.rsqrt %163 : tensor<2x64x1xf32>
    %165 = stablehlo.reshape %arg18 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %166 = stablehlo.broadcast_in_dim %164, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %167 = stablehlo.broadcast_in_dim %165, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %168 = stablehlo.multiply %166, %167 : tensor<2x64x32xf32>
    %169 = stablehlo.multiply %161, %168 : tensor<2x64x32xf32>
    %170 = stablehlo.reshape %arg17 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %171 = stablehlo.broadcast_in_dim %170, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %172 = stablehlo.add %169, %171 : tensor<2x64x32xf32>
    %173 = stablehlo.convert %172 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %174 = stablehlo.convert %arg40 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %175 = stablehlo.convert %arg39 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %176 = stablehlo.dot_general %173, %174, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %177 = stablehlo.reshape %175 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %179 = stablehlo.add %176, %178 : tensor<2x64x4x8xbf16>
    %180 = stablehlo.convert %arg36 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %181 = stablehlo.convert %arg35 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %182 = stablehlo.dot_general %173, %180, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %183 = stablehlo.reshape %181 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %184 = stablehlo.broadcast_in_dim %183, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %185 = stablehlo.add %182, %184 : tensor<2x64x4x8xbf16>
    %186 = stablehlo.convert %arg42 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %187 = stablehlo.convert %arg41 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %188 = stablehlo.dot_general %173, %186, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %189 = stablehlo.reshape %187 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %190 = stablehlo.broadcast_in_dim %189, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %191 = stablehlo.add %188, %190 : tensor<2x64x4x8xbf16>
    %cst_26 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %192 = stablehlo.sqrt %cst_26 : tensor<f32>
    %193 = stablehlo.convert %192 : (tensor<f32>) -> tensor<bf16>
    %194 = stablehlo.broadcast_in_dim %193, dims = [] : (tensor<bf16>) -> tensor<2x64x4x8xbf16>
    %195 = stablehlo.divide %179, %194 : tensor<2x64x4x8xbf16>
    %196 = stablehlo.dot_general %195, %185, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x64x4x8xbf16>) -> tensor<2x4x64x64xbf16>
    %cst_27 = stablehlo.constant dense<-3.389530e+38> : tensor<bf16>
    %197 = call @_where_0(%14, %196, %cst_27) : (tensor<2x1x64x64xf32>, tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %cst_28 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %198 = stablehlo.reduce(%197 init: %cst_28) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64xbf16>
    %cst_29 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %199 = stablehlo.broadcast_in_dim %cst_29, dims = [] : (tensor<bf16>) -> tensor<2x4x64xbf16>
    %200 = stablehlo.maximum %199, %198 : tensor<2x4x64xbf16>
    %201 = stablehlo.broadcast_in_dim %200, dims = [0, 1, 2] : (tensor<2x4x64xbf16>) -> tensor<2x4x64x1xbf16>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %203 = stablehlo.subtract %197, %202 : tensor<2x4x64x64xbf16>
    %204 = stablehlo.exponential %203 : tensor<2x4x64x64xbf16>
    %205 = stablehlo.convert %204 : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x64xf32>
    %cst_30 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %206 = stablehlo.reduce(%205 init: %cst_30) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %207 = stablehlo.broadcast_in_dim %206, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %208 = stablehlo.convert %207 : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x1xbf16>
    %209 = stablehlo.broadcast_in_dim %208, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %210 = stablehlo.divide %204, %209 : tensor<2x4x64x64xbf16>
    %211 = stablehlo.dot_general %191, %210, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x4x64x64xbf16>) -> tensor<2x4x8x64xbf16>
    %212 = stablehlo.transpose %211, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xbf16>) -> tensor<2x64x4x8xbf16>
    %213 = stablehlo.convert %arg38 : (tensor<4x8x32xf32>) -> tensor<4x8x32xbf16>
    %214 = stablehlo.convert %arg37 : (tensor<32xf32>) -> tensor<32xbf16>
    %215 = stablehlo.dot_general %212, %213, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<4x8x32xbf16>) -> tensor<2x64x32xbf16>
    %216 = stablehlo.reshape %214 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %217 = stablehlo.broadcast_in_dim %216, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %218 = stablehlo.add %215, %217 : tensor<2x64x32xbf16>
    %219 = stablehlo.add %144, %218 : tensor<2x64x32xbf16>
    %220 = stablehlo.convert %219 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %221 = chlo.square %220 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_31 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %222 = stablehlo.reduce(%220 init: %cst_31) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_32 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %223 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %224 = stablehlo.divide %222, %223 : tensor<2x64xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %225 = stablehlo.reduce(%221 init: %cst_33) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_34 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %226 = stablehlo.broadcast_in_dim %cst_34, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %227 = stablehlo.divide %225, %226 : tensor<2x64xf32>
    %228 = chlo.square %224 : tensor<2x64xf32> -> tensor<2x64xf32>
    %229 = stablehlo.subtract %227, %228 : tensor<2x64xf32>
    %cst_35 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %230 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %231 = stablehlo.maximum %230, %229 : tensor<2x64xf32>
    %232 = stablehlo.broadcast_in_dim %224, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %233 = stablehlo.broadcast_in_dim %231, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %234 = stablehlo.convert %219 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %235 = stablehlo.broadcast_in_dim %232, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %236 = stablehlo.subtract %234, %235 : tensor<2x64x32xf32>
    %cst_36 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %237 = stablehlo.broadcast_in_dim %cst_36, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %238 = stablehlo.add %233, %237 : tensor<2x64x1xf32>
    %239 = stablehlo.rsqrt %238 : tensor<2x64x1xf32>
    %240 = stablehlo.reshape %arg20 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %241 = stablehlo.broadcast_in_dim %239, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %242 = stablehlo.broadcast_in_dim %240, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %243 = stablehlo.multiply %241, %242 : tensor<2x64x32xf32>
    %244 = stablehlo.multiply %236, %243 : tensor<2x64x32xf32>
    %245 = stablehlo.reshape %arg19 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %246 = stablehlo.broadcast_in_dim %245, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %247 = stablehlo.add %244, %246 : tensor<2x64x32xf32>
    %248 = stablehlo.convert %247 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %249 = stablehlo.convert %arg5 : (tensor<32x128xf32>) -> tensor<32x128xbf16>
    %250 = stablehlo.convert %arg4 : (tensor<128xf32>) -> tensor<128xbf16>
    %251 = stablehlo.dot_general %248, %249, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x128xbf16>) -> tensor<2x64x128xbf16>
    %252 = stablehlo.reshape %250 : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %253 = stablehlo.broadcast_in_dim %252, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<2x64x128xbf16>
    %254 = stablehlo.add %251, %253 : tensor<2x64x128xbf16>
    %255 = stablehlo.multiply %254, %254 : tensor<2x64x128xbf16>
    %256 = stablehlo.multiply %255, %254 : tensor<2x64x128xbf16>
    %cst_37 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %257 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %258 = stablehlo.multiply %257, %256 : tensor<2x64x128xbf16>
    %259 = stablehlo.add %254, %258 : tensor<2x64x128xbf16>
    %cst_38 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %260 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %261 = stablehlo.multiply %260, %259 : tensor<2x64x128xbf16>
    %262 = stablehlo.tanh %261 : tensor<2x64x128xbf16>
    %cst_39 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %263 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %264 = stablehlo.add %263, %262 : tensor<2x64x128xbf16>
    %cst_40 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %265 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %266 = stablehlo.multiply %265, %264 : tensor<2x64x128xbf16>
    %267 = stablehlo.multiply %254, %266 : tensor<2x64x128xbf16>
    %268 = stablehlo.convert %arg7 : (tensor<128x32xf32>) -> tensor<128x32xbf16>
    %269 = stablehlo.convert %arg6 : (tensor<32xf32>) -> tensor<32xbf16>
    %270 = stablehlo.dot_general %267, %268, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<128x32xbf16>) -> tensor<2x64x32xbf16>
    %271 = stablehlo.reshape %269 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %272 = stablehlo.broadcast_in_dim %271, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %273 = stablehlo.add %270, %272 : tensor<2x64x32xbf16>
    %274 = stablehlo.add %219, %273 : tensor<2x64x32xbf16>
    %275 = stablehlo.convert %274 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %276 = chlo.square %275 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_41 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %277 = stablehlo.reduce(%275 init: %cst_41) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_42 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %278 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %279 = stablehlo.divide %277, %278 : tensor<2x64xf32>
    %cst_43 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %280 = stablehlo.reduce(%276 init: %cst_43) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_44 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %281 = stablehlo.broadcast_in_dim %cst_44, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %282 = stablehlo.divide %280, %281 : tensor<2x64xf32>
    %283 = chlo.square %279 : tensor<2x64xf32> -> tensor<2x64xf32>
    %284 = stablehlo.subtract %282, %283 : tensor<2x64xf32>
    %cst_45 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %285 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %286 = stablehlo.maximum %285, %284 : tensor<2x64xf32>
    %287 = stablehlo.broadcast_in_dim %279, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %288 = stablehlo.broadcast_in_dim %286, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %289 = stablehlo.convert %274 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %290 = stablehlo.broadcast_in_dim %287, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %291 = stablehlo.subtract %289, %290 : tensor<2x64x32xf32>
    %cst_46 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %292 = stablehlo.broadcast_in_dim %cst_46, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %293 = stablehlo.add %288, %292 : tensor<2x64x1xf32>
    %294 = stablehlo.rsqrt %293 : tensor<2x64x1xf32>
    %295 = stablehlo.reshape %arg22 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %296 = stablehlo.broadcast_in_dim %294, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %297 = stablehlo.broadcast_in_dim %295, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %298 = stablehlo.multiply %296, %297 : tensor<2x64x32xf32>
    %299 = stablehlo.multiply %291, %298 : tensor<2x64x32xf32>
    %300 = stablehlo.reshape %arg21 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %301 = stablehlo.broadcast_in_dim %300, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %302 = stablehlo.add %299, %301 : tensor<2x64x32xf32>
    %303 = stablehlo.convert %302 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %304 = stablehlo.convert %arg48 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %305 = stablehlo.convert %arg47 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %306 = stablehlo.dot_general %303, %304, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %307 = stablehlo.reshape %305 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %308 = stablehlo.broadcast_in_dim %307, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %309 = stablehlo.add %306, %308 : tensor<2x64x4x8xbf16>
    %310 = stablehlo.convert %arg44 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %311 = stablehlo.convert %arg43 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %312 = stablehlo.dot_general %303, %310, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %313 = stablehlo.reshape %311 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %314 = stablehlo.broadcast_in_dim %313, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %315 = stablehlo.add %312, %314 : tensor<2x64x4x8xbf16>
    %316 = stablehlo.convert %arg50 : (tensor<32x4x8xf32>) -> tensor<32x4x8xbf16>
    %317 = stablehlo.convert %arg49 : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %318 = stablehlo.dot_general %303, %316, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %319 = stablehlo.reshape %317 : (tensor<4x8xbf16>) -> tensor<1x1x4x8xbf16>
    %320 = stablehlo.broadcast_in_dim %319, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xbf16>) -> tensor<2x64x4x8xbf16>
    %321 = stablehlo.add %318, %320 : tensor<2x64x4x8xbf16>
    %cst_47 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %322 = stablehlo.sqrt %cst_47 : tensor<f32>
    %323 = stablehlo.convert %322 : (tensor<f32>) -> tensor<bf16>
    %324 = stablehlo.broadcast_in_dim %323, dims = [] : (tensor<bf16>) -> tensor<2x64x4x8xbf16>
    %325 = stablehlo.divide %309, %324 : tensor<2x64x4x8xbf16>
    %326 = stablehlo.dot_general %325, %315, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x64x4x8xbf16>) -> tensor<2x4x64x64xbf16>
    %cst_48 = stablehlo.constant dense<-3.389530e+38> : tensor<bf16>
    %327 = call @_where_0(%14, %326, %cst_48) : (tensor<2x1x64x64xf32>, tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %cst_49 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %328 = stablehlo.reduce(%327 init: %cst_49) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x64x64xbf16>, tensor<bf16>) -> tensor<2x4x64xbf16>
    %cst_50 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %329 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<bf16>) -> tensor<2x4x64xbf16>
    %330 = stablehlo.maximum %329, %328 : tensor<2x4x64xbf16>
    %331 = stablehlo.broadcast_in_dim %330, dims = [0, 1, 2] : (tensor<2x4x64xbf16>) -> tensor<2x4x64x1xbf16>
    %332 = stablehlo.broadcast_in_dim %331, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %333 = stablehlo.subtract %327, %332 : tensor<2x4x64x64xbf16>
    %334 = stablehlo.exponential %333 : tensor<2x4x64x64xbf16>
    %335 = stablehlo.convert %334 : (tensor<2x4x64x64xbf16>) -> tensor<2x4x64x64xf32>
    %cst_51 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %336 = stablehlo.reduce(%335 init: %cst_51) applies stablehlo.add across dimensions = [3] : (tensor<2x4x64x64xf32>, tensor<f32>) -> tensor<2x4x64xf32>
    %337 = stablehlo.broadcast_in_dim %336, dims = [0, 1, 2] : (tensor<2x4x64xf32>) -> tensor<2x4x64x1xf32>
    %338 = stablehlo.convert %337 : (tensor<2x4x64x1xf32>) -> tensor<2x4x64x1xbf16>
    %339 = stablehlo.broadcast_in_dim %338, dims = [0, 1, 2, 3] : (tensor<2x4x64x1xbf16>) -> tensor<2x4x64x64xbf16>
    %340 = stablehlo.divide %334, %339 : tensor<2x4x64x64xbf16>
    %341 = stablehlo.dot_general %321, %340, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<2x4x64x64xbf16>) -> tensor<2x4x8x64xbf16>
    %342 = stablehlo.transpose %341, dims = [0, 3, 1, 2] : (tensor<2x4x8x64xbf16>) -> tensor<2x64x4x8xbf16>
    %343 = stablehlo.convert %arg46 : (tensor<4x8x32xf32>) -> tensor<4x8x32xbf16>
    %344 = stablehlo.convert %arg45 : (tensor<32xf32>) -> tensor<32xbf16>
    %345 = stablehlo.dot_general %342, %343, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xbf16>, tensor<4x8x32xbf16>) -> tensor<2x64x32xbf16>
    %346 = stablehlo.reshape %344 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %347 = stablehlo.broadcast_in_dim %346, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %348 = stablehlo.add %345, %347 : tensor<2x64x32xbf16>
    %349 = stablehlo.add %274, %348 : tensor<2x64x32xbf16>
    %350 = stablehlo.convert %349 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %351 = chlo.square %350 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_52 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %352 = stablehlo.reduce(%350 init: %cst_52) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_53 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %353 = stablehlo.broadcast_in_dim %cst_53, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %354 = stablehlo.divide %352, %353 : tensor<2x64xf32>
    %cst_54 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %355 = stablehlo.reduce(%351 init: %cst_54) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_55 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %356 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %357 = stablehlo.divide %355, %356 : tensor<2x64xf32>
    %358 = chlo.square %354 : tensor<2x64xf32> -> tensor<2x64xf32>
    %359 = stablehlo.subtract %357, %358 : tensor<2x64xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %360 = stablehlo.broadcast_in_dim %cst_56, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %361 = stablehlo.maximum %360, %359 : tensor<2x64xf32>
    %362 = stablehlo.broadcast_in_dim %354, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %363 = stablehlo.broadcast_in_dim %361, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %364 = stablehlo.convert %349 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %365 = stablehlo.broadcast_in_dim %362, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %366 = stablehlo.subtract %364, %365 : tensor<2x64x32xf32>
    %cst_57 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %367 = stablehlo.broadcast_in_dim %cst_57, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %368 = stablehlo.add %363, %367 : tensor<2x64x1xf32>
    %369 = stablehlo.rsqrt %368 : tensor<2x64x1xf32>
    %370 = stablehlo.reshape %arg24 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %371 = stablehlo.broadcast_in_dim %369, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %372 = stablehlo.broadcast_in_dim %370, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %373 = stablehlo.multiply %371, %372 : tensor<2x64x32xf32>
    %374 = stablehlo.multiply %366, %373 : tensor<2x64x32xf32>
    %375 = stablehlo.reshape %arg23 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %376 = stablehlo.broadcast_in_dim %375, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %377 = stablehlo.add %374, %376 : tensor<2x64x32xf32>
    %378 = stablehlo.convert %377 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %379 = stablehlo.convert %arg9 : (tensor<32x128xf32>) -> tensor<32x128xbf16>
    %380 = stablehlo.convert %arg8 : (tensor<128xf32>) -> tensor<128xbf16>
    %381 = stablehlo.dot_general %378, %379, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x128xbf16>) -> tensor<2x64x128xbf16>
    %382 = stablehlo.reshape %380 : (tensor<128xbf16>) -> tensor<1x1x128xbf16>
    %383 = stablehlo.broadcast_in_dim %382, dims = [0, 1, 2] : (tensor<1x1x128xbf16>) -> tensor<2x64x128xbf16>
    %384 = stablehlo.add %381, %383 : tensor<2x64x128xbf16>
    %385 = stablehlo.multiply %384, %384 : tensor<2x64x128xbf16>
    %386 = stablehlo.multiply %385, %384 : tensor<2x64x128xbf16>
    %cst_58 = stablehlo.constant dense<4.467770e-02> : tensor<bf16>
    %387 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %388 = stablehlo.multiply %387, %386 : tensor<2x64x128xbf16>
    %389 = stablehlo.add %384, %388 : tensor<2x64x128xbf16>
    %cst_59 = stablehlo.constant dense<7.968750e-01> : tensor<bf16>
    %390 = stablehlo.broadcast_in_dim %cst_59, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %391 = stablehlo.multiply %390, %389 : tensor<2x64x128xbf16>
    %392 = stablehlo.tanh %391 : tensor<2x64x128xbf16>
    %cst_60 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %393 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %394 = stablehlo.add %393, %392 : tensor<2x64x128xbf16>
    %cst_61 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %395 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<bf16>) -> tensor<2x64x128xbf16>
    %396 = stablehlo.multiply %395, %394 : tensor<2x64x128xbf16>
    %397 = stablehlo.multiply %384, %396 : tensor<2x64x128xbf16>
    %398 = stablehlo.convert %arg11 : (tensor<128x32xf32>) -> tensor<128x32xbf16>
    %399 = stablehlo.convert %arg10 : (tensor<32xf32>) -> tensor<32xbf16>
    %400 = stablehlo.dot_general %397, %398, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xbf16>, tensor<128x32xbf16>) -> tensor<2x64x32xbf16>
    %401 = stablehlo.reshape %399 : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %402 = stablehlo.broadcast_in_dim %401, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x64x32xbf16>
    %403 = stablehlo.add %400, %402 : tensor<2x64x32xbf16>
    %404 = stablehlo.add %349, %403 : tensor<2x64x32xbf16>
    %405 = stablehlo.convert %404 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %406 = chlo.square %405 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_62 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %407 = stablehlo.reduce(%405 init: %cst_62) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_63 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %408 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %409 = stablehlo.divide %407, %408 : tensor<2x64xf32>
    %cst_64 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %410 = stablehlo.reduce(%406 init: %cst_64) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_65 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %411 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %412 = stablehlo.divide %410, %411 : tensor<2x64xf32>
    %413 = chlo.square %409 : tensor<2x64xf32> -> tensor<2x64xf32>
    %414 = stablehlo.subtract %412, %413 : tensor<2x64xf32>
    %cst_66 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %415 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %416 = stablehlo.maximum %415, %414 : tensor<2x64xf32>
    %417 = stablehlo.broadcast_in_dim %409, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %418 = stablehlo.broadcast_in_dim %416, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %419 = stablehlo.convert %404 : (tensor<2x64x32xbf16>) -> tensor<2x64x32xf32>
    %420 = stablehlo.broadcast_in_dim %417, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %421 = stablehlo.subtract %419, %420 : tensor<2x64x32xf32>
    %cst_67 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %422 = stablehlo.broadcast_in_dim %cst_67, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %423 = stablehlo.add %418, %422 : tensor<2x64x1xf32>
    %424 = stablehlo.rsqrt %423 : tensor<2x64x1xf32>
    %425 = stablehlo.reshape %arg26 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %426 = stablehlo.broadcast_in_dim %424, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %427 = stablehlo.broadcast_in_dim %425, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %428 = stablehlo.multiply %426, %427 : tensor<2x64x32xf32>
    %429 = stablehlo.multiply %421, %428 : tensor<2x64x32xf32>
    %430 = stablehlo.reshape %arg25 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %431 = stablehlo.broadcast_in_dim %430, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %432 = stablehlo.add %429, %431 : tensor<2x64x32xf32>
    %433 = stablehlo.convert %432 : (tensor<2x64x32xf32>) -> tensor<2x64x32xbf16>
    %434 = stablehlo.convert %arg12 : (tensor<100x32xf32>) -> tensor<100x32xbf16>
    %435 = stablehlo.transpose %434, dims = [1, 0] : (tensor<100x32xbf16>) -> tensor<32x100xbf16>
    %436 = stablehlo.dot_general %433, %435, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xbf16>, tensor<32x100xbf16>) -> tensor<2x64x100xbf16>
    return %436 : tensor<2x64x100xbf16>
  }
  func.func private @_take(%arg0: tensor<100x32xbf16>, %arg1: tensor<2x64xi32>) -> tensor<2x64x32xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x64xi32>, tensor<2x64xi32>) -> tensor<2x64xi1>
    %c_0 = stablehlo.constant dense<100> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x64xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x64xi32>
    %4 = call @_where(%1, %3, %arg1) : (tensor<2x64xi1>, tensor<2x64xi32>, tensor<2x64xi32>) -> tensor<2x64xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %c_1 = stablehlo.constant dense<99> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x64x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x64x1xi32>, tensor<2x64x1xi32>) -> tensor<2x64x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<2x64x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x64x1xi32>, tensor<2x64x1xi32>) -> tensor<2x64x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x64x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<2x64x1xi1>, tensor<i1>) -> tensor<2x64xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xbf16>, tensor<2x64x1xi32>) -> tensor<2x64x32xbf16>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<2x64xi1>) -> tensor<2x64x32xi1>
    %cst = stablehlo.constant dense<0x7FC0> : tensor<bf16>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x64x32xbf16>
    %16 = stablehlo.select %14, %13, %15 : tensor<2x64x32xi1>, tensor<2x64x32xbf16>
    return %16 : tensor<2x64x32xbf16>
  }
  func.func private @_where(%arg0: tensor<2x64xi1>, %arg1: tensor<2x64xi32>, %arg2: tensor<2x64xi32>) -> tensor<2x64xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2x64xi1>, tensor<2x64xi32>
    return %0 : tensor<2x64xi32>
  }
  func.func private @_where_0(%arg0: tensor<2x1x64x64xf32>, %arg1: tensor<2x4x64x64xbf16>, %arg2: tensor<bf16>) -> tensor<2x4x64x64xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x1x64x64xf32>
    %1 = stablehlo.compare NE, %arg0, %0, FLOAT : (tensor<2x1x64x64xf32>, tensor<2x1x64x64xf32>) -> tensor<2x1x64x64xi1>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<2x1x64x64xi1>) -> tensor<2x4x64x64xi1>
    %3 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<bf16>) -> tensor<2x4x64x64xbf16>
    %4 = stablehlo.select %2, %arg1, %3 : tensor<2x4x64x64xi1>, tensor<2x4x64x64xbf16>
    return %4 : tensor<2x4x64x64xbf16>
  }
}
