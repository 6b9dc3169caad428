module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32> loc("state['layers'][0]['attention']['key']['bias'].value"), %arg1: tensor<32x4x8xf32> loc("state['layers'][0]['attention']['key']['kernel'].value"), %arg2: tensor<32xf32> loc("state['layers'][0]['attention']['out']['bias'].value"), %arg3: tensor<4x8x32xf32> loc("state['layers'][0]['attention']['out']['kernel'].value"), %arg4: tensor<4x8xf32> loc("state['layers'][0]['attention']['query']['bias'].value"), %arg5: tensor<32x4x8xf32> loc("state['layers'][0]['attention']['query']['kernel'].value"), %arg6: tensor<4x8xf32> loc("state['layers'][0]['attention']['value']['bias'].value"), %arg7: tensor<32x4x8xf32> loc("state['layers'][0]['attention']['value']['kernel'].value"), %arg8: tensor<32xf32> loc("state['layers'][0]['down']['bias'].value"), %arg9: tensor<128x32xf32> loc("state['layers'][0]['down']['kernel'].value"), %arg10: tensor<32xf32> loc("state['layers'][0]['first']['bias'].value"), %arg11: tensor<32xf32> loc("state['layers'][0]['first']['scale'].value"), %arg12: tensor<32xf32> loc("state['layers'][0]['second']['bias'].value"), %arg13: tensor<32xf32> loc("state['layers'][0]['second']['scale'].value"), %arg14: tensor<128xf32> loc("state['layers'][0]['up']['bias'].value"), %arg15: tensor<32x128xf32> loc("state['layers'][0]['up']['kernel'].value"), %arg16: tensor<4x8xf32> loc("state['layers'][1]['attention']['key']['bias'].value"), %arg17: tensor<32x4x8xf32> loc("state['layers'][1]['attention']['key']['kernel'].value"), %arg18: tensor<32xf32> loc("state['layers'][1]['attention']['out']['bias'].value"), %arg19: tensor<4x8x32xf32> loc("state['layers'][1]['attention']['out']['kernel'].value"), %arg20: tensor<4x8xf32> loc("state['layers'][1]['attention']['query']['bias'].value"), %arg21: tensor<32x4x8xf32> loc("state['layers'][1]['attention']['query']['kernel'].value"), %arg22: tensor<4x8xf32> loc("state['layers'][1]['attention']['value']['bias'].value"), %arg23: tensor<32x4x8xf32> loc("state['layers'][1]['attention']['value']['kernel'].value"), %arg24: tensor<32xf32> loc("state['layers'][1]['down']['bias'].value"), %arg25: tensor<128x32xf32> loc("state['layers'][1]['down']['kernel'].value"), %arg26: tensor<32xf32> loc("state['layers'][1]['first']['bias'].value"), %arg27: tensor<32xf32> loc("state['layers'][1]['first']['scale'].value"), %arg28: tensor<32xf32> loc("state['layers'][1]['second']['bias'].value"), %arg29: tensor<32xf32> loc("state['layers'][1]['second']['scale'].value"), %arg30: tensor<128xf32> loc("state['layers'][1]['up']['bias'].value"), %arg31: tensor<32x128xf32> loc("state['layers'][1]['up']['kernel'].value"), %arg32: tensor<4x8xf32> loc("state['layers'][2]['attention']['key']['bias'].value"), %arg33: tensor<32x4x8xf32> loc("state['layers'][2]['attention']['key']['kernel'].value"), %arg34: tensor<32xf32> loc("state['layers'][2]['attention']['out']['bias'].value"), %arg35: tensor<4x8x32xf32> loc("state['layers'][2]['attention']['out']['kernel'].value"), %arg36: tensor<4x8xf32> loc("state['layers'][2]['attention']['query']['bias'].value"), %arg37: tensor<32x4x8xf32> loc("state['layers'][2]['attention']['query']['kernel'].value"), %arg38: tensor<4x8xf32> loc("state['layers'][2]['attention']['value']['bias'].value"), %arg39: tensor<32x4x8xf32> loc("state['layers'][2]['attention']['value']['kernel'].value"), %arg40: tensor<32xf32> loc("state['layers'][2]['down']['bias'].value"), %arg41: tensor<128x32xf32> loc("state['layers'][2]['down']['kernel'].value"), %arg42: tensor<32xf32> loc("state['layers'][2]['first']['bias'].value"), %arg43: tensor<32xf32> loc("state['layers'][2]['first']['scale'].value"), %arg44: tensor<32xf32> loc("state['layers'][2]['second']['bias'].value"), %arg45: tensor<32xf32> loc("state['layers'][2]['second']['scale'].value"), %arg46: tensor<128xf32> loc("state['layers'][2]['up']['bias'].value"), %arg47: tensor<32x128xf32> loc("state['layers'][2]['up']['kernel'].value"), %arg48: tensor<32xf32> loc("state['norm']['bias'].value"), %arg49: tensor<32xf32> loc("state['norm']['scale'].value"), %arg50: tensor<64x32xf32> loc("state['places'].value"), %arg51: tensor<100x32xf32> loc("state['words']['embedding'].value"), %arg52: tensor<2x64xi32> loc("tokens")) -> (tensor<2x64x100xf32> {jax.result_info = "result[0]"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][0]['attention']['key']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][0]['attention']['key']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['attention']['out']['bias'].value"}, tensor<4x8x32xf32> {jax.result_info = "result[1]['layers'][0]['attention']['out']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][0]['attention']['query']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][0]['attention']['query']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][0]['attention']['value']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][0]['attention']['value']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['down']['bias'].value"}, tensor<128x32xf32> {jax.result_info = "result[1]['layers'][0]['down']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['first']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['first']['scale'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['second']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][0]['second']['scale'].value"}, tensor<128xf32> {jax.result_info = "result[1]['layers'][0]['up']['bias'].value"}, tensor<32x128xf32> {jax.result_info = "result[1]['layers'][0]['up']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][1]['attention']['key']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][1]['attention']['key']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['attention']['out']['bias'].value"}, tensor<4x8x32xf32> {jax.result_info = "result[1]['layers'][1]['attention']['out']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][1]['attention']['query']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][1]['attention']['query']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][1]['attention']['value']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][1]['attention']['value']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['down']['bias'].value"}, tensor<128x32xf32> {jax.result_info = "result[1]['layers'][1]['down']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['first']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['first']['scale'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['second']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][1]['second']['scale'].value"}, tensor<128xf32> {jax.result_info = "result[1]['layers'][1]['up']['bias'].value"}, tensor<32x128xf32> {jax.result_info = "result[1]['layers'][1]['up']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][2]['attention']['key']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][2]['attention']['key']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][2]['attention']['out']['bias'].value"}, tensor<4x8x32xf32> {jax.result_info = "result[1]['layers'][2]['attention']['out']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][2]['attention']['query']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][2]['attention']['query']['kernel'].value"}, tensor<4x8xf32> {jax.result_info = "result[1]['layers'][2]['attention']['value']['bias'].value"}, tensor<32x4x8xf32> {jax.result_info = "result[1]['layers'][2]['attention']['value']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][2]['down']['bias'].value"}, tensor<128x32xf32> {jax.result_info = "result[1]['layers'][2]['down']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][2]['first']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][2]['first']['scale'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][2]['second']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['layers'][2]['second']['scale'].value"}, tensor<128xf32> {jax.result_info = "result[1]['layers'][2]['up']['bias'].value"}, tensor<32x128xf32> {jax.result_info = "result[1]['layers'][2]['up']['kernel'].value"}, tensor<32xf32> {jax.result_info = "result[1]['norm']['bias'].value"}, tensor<32xf32> {jax.result_info = "result[1]['norm']['scale'].value"}, tensor<64x32xf32> {jax.result_info = "result[1]['places'].value"}, tensor<100x32xf32> {jax.result_info = "result[1]['words']['embedding'].value"}) {
    %0 = call @_take(%arg51, %arg52) : (tensor<100x32xf32>, tensor<2x64xi32>) -> tensor<2x64x32xf32>
    %1 = stablehlo.broadcast_in_dim %arg50, dims = [1, 2] : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x64x32xf32>) -> tensor<2x64x32xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x64x32xf32>
    %4 = stablehlo.iota dim = 0 : tensor<64xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [1] : (tensor<64xi32>) -> tensor<2x64xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %7 = stablehlo.broadcast_in_dim %5, dims = [0, 2] : (tensor<2x64xi32>) -> tensor<2x1x64xi32>
    %8 = stablehlo.broadcast_in_dim %6, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x64xi32>
    %9 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<2x1x64xi32>) -> tensor<2x64x64xi32>
    %10 = stablehlo.compare GE, %8, %9, SIGNED : (tensor<2x64x64xi32>, tensor<2x64x64xi32>) -> tensor<2x64x64xi1>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 2, 3] : (tensor<2x64x64xi1>) -> tensor<2x1x64x64xi1>
    %12 = stablehlo.convert %11 : (tensor<2x1x64x64xi1>) -> tensor<2x1x64x64xf32>
    %13 = chlo.square %3 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %16 = stablehlo.divide %14, %15 : tensor<2x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%13 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_2 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %19 = stablehlo.divide %17, %18 : tensor<2x64xf32>
    %20 = chlo.square %16 : tensor<2x64xf32> -> tensor<2x64xf32>
    %21 = stablehlo.subtract %19, %20 : tensor<2x64xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %23 = stablehlo.maximum %22, %21 : tensor<2x64xf32>
    %24 = stablehlo.reshape %16 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %25 = stablehlo.reshape %23 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %26 = stablehlo.broadcast_in_dim %24, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %27 = stablehlo.subtract %3, %26 : tensor<2x64x32xf32>
    %cst_4 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %29 = stablehlo.add %25, %28 : tensor<2x64x1xf32>
    %30 = stablehlo.rsqrt %29 : tensor<2x64x1xf32>
    %31 = stablehlo.reshape %arg11 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %32 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %34 = stablehlo.multiply %32, %33 : tensor<2x64x32xf32>
    %35 = stablehlo.multiply %27, %34 : tensor<2x64x32xf32>
    %36 = stablehlo.reshape %arg10 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %38 = stablehlo.add %35, %37 : tensor<2x64x32xf32>
    %39 = stablehlo.dot_general %38, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %40 = stablehlo.reshape %arg4 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %42 = stablehlo.add %39, %41 : tensor<2x64x4x8xf32>
    %43 = stablehlo.dot_general %38, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %44 = stablehlo.reshape %arg0 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %46 = stablehlo.add %43, %45 : tensor<2x64x4x8xf32>
    %47 = stablehlo.dot_general %38, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %48 = stablehlo.reshape %arg6 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %50 = stablehlo.add %47, %49 : tensor<2x64x4x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x1x64x64xf32>
    %52 = stablehlo.compare NE, %12, %51, FLOAT : (tensor<2x1x64x64xf32>, tensor<2x1x64x64xf32>) -> tensor<2x1x64x64xi1>
    %53 = stablehlo.convert %52 : tensor<2x1x64x64xi1>
    %54 = stablehlo.reshape %42 : (tensor<2x64x4x8xf32>) -> tensor<2x64x4x1x8xf32>
    %55 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 3, 4] : (tensor<2x1x64x64xi1>) -> tensor<2x1x1x64x64xi1>
    %56 = stablehlo.dot_general %54, %46, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x1x8xf32>, tensor<2x64x4x8xf32>) -> tensor<2x4x64x1x64xf32>
    %cst_6 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x4x64x1x64xf32>
    %58 = stablehlo.multiply %56, %57 : tensor<2x4x64x1x64xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %59 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<2x4x64x64xi1>
    %60 = stablehlo.broadcast_in_dim %59, dims = [1, 2, 3, 4] : (tensor<2x4x64x64xi1>) -> tensor<1x2x4x64x64xi1>
    %61 = stablehlo.transpose %55, dims = [2, 0, 1, 3, 4] : (tensor<2x1x1x64x64xi1>) -> tensor<1x2x1x64x64xi1>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2, 3, 4] : (tensor<1x2x1x64x64xi1>) -> tensor<1x2x4x64x64xi1>
    %63 = stablehlo.and %60, %62 : tensor<1x2x4x64x64xi1>
    %cst_7 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %64 = call @_where_0(%63, %58, %cst_7) : (tensor<1x2x4x64x64xi1>, tensor<2x4x64x1x64xf32>, tensor<f32>) -> tensor<1x2x4x64x64xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %65 = stablehlo.reduce(%64 init: %cst_8) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x4x64x64xf32>, tensor<f32>) -> tensor<1x2x4x64xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x2x4x64xf32>
    %67 = stablehlo.maximum %66, %65 : tensor<1x2x4x64xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x64x1xf32>) -> tensor<1x2x4x64x64xf32>
    %70 = stablehlo.subtract %64, %69 : tensor<1x2x4x64x64xf32>
    %71 = stablehlo.exponential %70 : tensor<1x2x4x64x64xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_10) applies stablehlo.add across dimensions = [4] : (tensor<1x2x4x64x64xf32>, tensor<f32>) -> tensor<1x2x4x64xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64x1xf32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x64x1xf32>) -> tensor<1x2x4x64x64xf32>
    %75 = stablehlo.divide %71, %74 : tensor<1x2x4x64x64xf32>
    %76 = stablehlo.dot_general %50, %75, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<1x2x4x64x64xf32>) -> tensor<2x4x8x1x64xf32>
    %77 = stablehlo.transpose %76, dims = [3, 0, 4, 1, 2] : (tensor<2x4x8x1x64xf32>) -> tensor<1x2x64x4x8xf32>
    %78 = stablehlo.transpose %77, dims = [1, 2, 3, 0, 4] : (tensor<1x2x64x4x8xf32>) -> tensor<2x64x4x1x8xf32>
    %79 = stablehlo.reshape %78 : (tensor<2x64x4x1x8xf32>) -> tensor<2x64x4x8xf32>
    %80 = stablehlo.dot_general %79, %arg3, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x64x32xf32>
    %81 = stablehlo.reshape %arg2 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %82 = stablehlo.broadcast_in_dim %81, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %83 = stablehlo.add %80, %82 : tensor<2x64x32xf32>
    %84 = stablehlo.add %3, %83 : tensor<2x64x32xf32>
    %85 = chlo.square %84 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %86 = stablehlo.reduce(%84 init: %cst_11) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_12 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %87 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %88 = stablehlo.divide %86, %87 : tensor<2x64xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %89 = stablehlo.reduce(%85 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_14 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %90 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %91 = stablehlo.divide %89, %90 : tensor<2x64xf32>
    %92 = chlo.square %88 : tensor<2x64xf32> -> tensor<2x64xf32>
    %93 = stablehlo.subtract %91, %92 : tensor<2x64xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %94 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %95 = stablehlo.maximum %94, %93 : tensor<2x64xf32>
    %96 = stablehlo.reshape %88 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %97 = stablehlo.reshape %95 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %98 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %99 = stablehlo.subtract %84, %98 : tensor<2x64x32xf32>
    %cst_16 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %100 = stablehlo.broadcast_in_dim %cst_16, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %101 = stablehlo.add %97, %100 : tensor<2x64x1xf32>
    %102 = stablehlo.rsqrt %101 : tensor<2x64x1xf32>
    %103 = stablehlo.reshape %arg13 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %104 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %105 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %106 = stablehlo.multiply %104, %105 : tensor<2x64x32xf32>
    %107 = stablehlo.multiply %99, %106 : tensor<2x64x32xf32>
    %108 = stablehlo.reshape %arg12 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %110 = stablehlo.add %107, %109 : tensor<2x64x32xf32>
    %111 = stablehlo.dot_general %110, %arg15, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x128xf32>) -> tensor<2x64x128xf32>
    %112 = stablehlo.reshape %arg14 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %113 = stablehlo.broadcast_in_dim %112, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x64x128xf32>
    %114 = stablehlo.add %111, %113 : tensor<2x64x128xf32>
    %115 = stablehlo.multiply %114, %114 : tensor<2x64x128xf32>
    %116 = stablehlo.multiply %115, %114 : tensor<2x64x128xf32>
    %cst_17 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %118 = stablehlo.multiply %117, %116 : tensor<2x64x128xf32>
    %119 = stablehlo.add %114, %118 : tensor<2x64x128xf32>
    %cst_18 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %120 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %121 = stablehlo.multiply %120, %119 : tensor<2x64x128xf32>
    %122 = stablehlo.tanh %121 : tensor<2x64x128xf32>
    %cst_19 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %123 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %124 = stablehlo.add %123, %122 : tensor<2x64x128xf32>
    %cst_20 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %125 = stablehlo.broadcast_in_dim %cst_20, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %126 = stablehlo.multiply %125, %124 : tensor<2x64x128xf32>
    %127 = stablehlo.multiply %114, %126 : tensor<2x64x128xf32>
    %128 = stablehlo.dot_general %127, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
    %129 = stablehlo.reshape %arg8 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %130 = stablehlo.broadcast_in_dim %129, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %131 = stablehlo.add %128, %130 : tensor<2x64x32xf32>
    %132 = stablehlo.add %84, %131 : tensor<2x64x32xf32>
    %133 = stablehlo.iota dim = 0 : tensor<64xi32>
    %134 = stablehlo.broadcast_in_dim %133, dims = [1] : (tensor<64xi32>) -> tensor<2x64xi32>
    %135 = stablehlo.broadcast_in_dim %134, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %136 = stablehlo.broadcast_in_dim %134, dims = [0, 2] : (tensor<2x64xi32>) -> tensor<2x1x64xi32>
    %137 = stablehlo.broadcast_in_dim %135, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x64xi32>
    %138 = stablehlo.broadcast_in_dim %136, dims = [0, 1, 2] : (tensor<2x1x64xi32>) -> tensor<2x64x64xi32>
    %139 = stablehlo.compare GE, %137, %138, SIGNED : (tensor<2x64x64xi32>, tensor<2x64x64xi32>) -> tensor<2x64x64xi1>
    %140 = stablehlo.broadcast_in_dim %139, dims = [0, 2, 3] : (tensor<2x64x64xi1>) -> tensor<2x1x64x64xi1>
    %141 = stablehlo.convert %140 : (tensor<2x1x64x64xi1>) -> tensor<2x1x64x64xf32>
    %142 = chlo.square %132 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %143 = stablehlo.reduce(%132 init: %cst_21) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_22 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %144 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %145 = stablehlo.divide %143, %144 : tensor<2x64xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %146 = stablehlo.reduce(%142 init: %cst_23) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_24 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %147 = stablehlo.broadcast_in_dim %cst_24, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %148 = stablehlo.divide %146, %147 : tensor<2x64xf32>
    %149 = chlo.square %145 : tensor<2x64xf32> -> tensor<2x64xf32>
    %150 = stablehlo.subtract %148, %149 : tensor<2x64xf32>
    %cst_25 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %151 = stablehlo.broadcast_in_dim %cst_25, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %152 = stablehlo.maximum %151, %150 : tensor<2x64xf32>
    %153 = stablehlo.reshape %145 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %154 = stablehlo.reshape %152 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %155 = stablehlo.broadcast_in_dim %153, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %156 = stablehlo.subtract %132, %155 : tensor<2x64x32xf32>
    %cst_26 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %157 = stablehlo.broadcast_in_dim %cst_26, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %158 = stablehlo.add %154, %157 : tensor<2x64x1xf32>
    %159 = stablehlo.rsqrt %158 : tensor<2x64x1xf32>
    %160 = stablehlo.reshape %arg27 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %161 = stablehlo.broadcast_in_dim %159, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %162 = stablehlo.broadcast_in_dim %160, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %163 = stablehlo.multiply %161, %162 : tensor<2x64x32xf32>
    %164 = stablehlo.multiply %156, %163 : tensor<2x64x32xf32>
    %165 = stablehlo.reshape %arg26 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %166 = stablehlo.broadcast_in_dim %165, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %167 = stablehlo.add %164, %166 : tensor<2x64x32xf32>
    %168 = stablehlo.dot_general %167, %arg21, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %169 = stablehlo.reshape %arg20 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %170 = stablehlo.broadcast_in_dim %169, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %171 = stablehlo.add %168, %170 : tensor<2x64x4x8xf32>
    %172 = stablehlo.dot_general %167, %arg17, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %173 = stablehlo.reshape %arg16 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %174 = stablehlo.broadcast_in_dim %173, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %175 = stablehlo.add %172, %174 : tensor<2x64x4x8xf32>
    %176 = stablehlo.dot_general %167, %arg23, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %177 = stablehlo.reshape %arg22 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %178 = stablehlo.broadcast_in_dim %177, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %179 = stablehlo.add %176, %178 : tensor<2x64x4x8xf32>
    %cst_27 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %180 = stablehlo.broadcast_in_dim %cst_27, dims = [] : (tensor<f32>) -> tensor<2x1x64x64xf32>
    %181 = stablehlo.compare NE, %141, %180, FLOAT : (tensor<2x1x64x64xf32>, tensor<2x1x64x64xf32>) -> tensor<2x1x64x64xi1>
    %182 = stablehlo.convert %181 : tensor<2x1x64x64xi1>
    %183 = stablehlo.reshape %171 : (tensor<2x64x4x8xf32>) -> tensor<2x64x4x1x8xf32>
    %184 = stablehlo.broadcast_in_dim %182, dims = [0, 1, 3, 4] : (tensor<2x1x64x64xi1>) -> tensor<2x1x1x64x64xi1>
    %185 = stablehlo.dot_general %183, %175, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x1x8xf32>, tensor<2x64x4x8xf32>) -> tensor<2x4x64x1x64xf32>
    %cst_28 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %186 = stablehlo.broadcast_in_dim %cst_28, dims = [] : (tensor<f32>) -> tensor<2x4x64x1x64xf32>
    %187 = stablehlo.multiply %185, %186 : tensor<2x4x64x1x64xf32>
    %c_29 = stablehlo.constant dense<true> : tensor<i1>
    %188 = stablehlo.broadcast_in_dim %c_29, dims = [] : (tensor<i1>) -> tensor<2x4x64x64xi1>
    %189 = stablehlo.broadcast_in_dim %188, dims = [1, 2, 3, 4] : (tensor<2x4x64x64xi1>) -> tensor<1x2x4x64x64xi1>
    %190 = stablehlo.transpose %184, dims = [2, 0, 1, 3, 4] : (tensor<2x1x1x64x64xi1>) -> tensor<1x2x1x64x64xi1>
    %191 = stablehlo.broadcast_in_dim %190, dims = [0, 1, 2, 3, 4] : (tensor<1x2x1x64x64xi1>) -> tensor<1x2x4x64x64xi1>
    %192 = stablehlo.and %189, %191 : tensor<1x2x4x64x64xi1>
    %cst_30 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %193 = call @_where_0(%192, %187, %cst_30) : (tensor<1x2x4x64x64xi1>, tensor<2x4x64x1x64xf32>, tensor<f32>) -> tensor<1x2x4x64x64xf32>
    %cst_31 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %194 = stablehlo.reduce(%193 init: %cst_31) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x4x64x64xf32>, tensor<f32>) -> tensor<1x2x4x64xf32>
    %cst_32 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %195 = stablehlo.broadcast_in_dim %cst_32, dims = [] : (tensor<f32>) -> tensor<1x2x4x64xf32>
    %196 = stablehlo.maximum %195, %194 : tensor<1x2x4x64xf32>
    %197 = stablehlo.broadcast_in_dim %196, dims = [0, 1, 2, 3] : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64x1xf32>
    %198 = stablehlo.broadcast_in_dim %197, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x64x1xf32>) -> tensor<1x2x4x64x64xf32>
    %199 = stablehlo.subtract %193, %198 : tensor<1x2x4x64x64xf32>
    %200 = stablehlo.exponential %199 : tensor<1x2x4x64x64xf32>
    %cst_33 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %201 = stablehlo.reduce(%200 init: %cst_33) applies stablehlo.add across dimensions = [4] : (tensor<1x2x4x64x64xf32>, tensor<f32>) -> tensor<1x2x4x64xf32>
    %202 = stablehlo.broadcast_in_dim %201, dims = [0, 1, 2, 3] : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64x1xf32>
    %203 = stablehlo.broadcast_in_dim %202, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x64x1xf32>) -> tensor<1x2x4x64x64xf32>
    %204 = stablehlo.divide %200, %203 : tensor<1x2x4x64x64xf32>
    %205 = stablehlo.dot_general %179, %204, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<1x2x4x64x64xf32>) -> tensor<2x4x8x1x64xf32>
    %206 = stablehlo.transpose %205, dims = [3, 0, 4, 1, 2] : (tensor<2x4x8x1x64xf32>) -> tensor<1x2x64x4x8xf32>
    %207 = stablehlo.transpose %206, dims = [1, 2, 3, 0, 4] : (tensor<1x2x64x4x8xf32>) -> tensor<2x64x4x1x8xf32>
    %208 = stablehlo.reshape %207 : (tensor<2x64x4x1x8xf32>) -> tensor<2x64x4x8xf32>
    %209 = stablehlo.dot_general %208, %arg19, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x64x32xf32>
    %210 = stablehlo.reshape %arg18 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %211 = stablehlo.broadcast_in_dim %210, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %212 = stablehlo.add %209, %211 : tensor<2x64x32xf32>
    %213 = stablehlo.add %132, %212 : tensor<2x64x32xf32>
    %214 = chlo.square %213 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_34 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %215 = stablehlo.reduce(%213 init: %cst_34) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_35 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %216 = stablehlo.broadcast_in_dim %cst_35, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %217 = stablehlo.divide %215, %216 : tensor<2x64xf32>
    %cst_36 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %218 = stablehlo.reduce(%214 init: %cst_36) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_37 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %219 = stablehlo.broadcast_in_dim %cst_37, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %220 = stablehlo.divide %218, %219 : tensor<2x64xf32>
    %221 = chlo.square %217 : tensor<2x64xf32> -> tensor<2x64xf32>
    %222 = stablehlo.subtract %220, %221 : tensor<2x64xf32>
    %cst_38 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %223 = stablehlo.broadcast_in_dim %cst_38, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %224 = stablehlo.maximum %223, %222 : tensor<2x64xf32>
    %225 = stablehlo.reshape %217 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %226 = stablehlo.reshape %224 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %227 = stablehlo.broadcast_in_dim %225, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %228 = stablehlo.subtract %213, %227 : tensor<2x64x32xf32>
    %cst_39 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %229 = stablehlo.broadcast_in_dim %cst_39, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %230 = stablehlo.add %226, %229 : tensor<2x64x1xf32>
    %231 = stablehlo.rsqrt %230 : tensor<2x64x1xf32>
    %232 = stablehlo.reshape %arg29 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %233 = stablehlo.broadcast_in_dim %231, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %234 = stablehlo.broadcast_in_dim %232, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %235 = stablehlo.multiply %233, %234 : tensor<2x64x32xf32>
    %236 = stablehlo.multiply %228, %235 : tensor<2x64x32xf32>
    %237 = stablehlo.reshape %arg28 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %238 = stablehlo.broadcast_in_dim %237, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %239 = stablehlo.add %236, %238 : tensor<2x64x32xf32>
    %240 = stablehlo.dot_general %239, %arg31, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x128xf32>) -> tensor<2x64x128xf32>
    %241 = stablehlo.reshape %arg30 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %242 = stablehlo.broadcast_in_dim %241, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x64x128xf32>
    %243 = stablehlo.add %240, %242 : tensor<2x64x128xf32>
    %244 = stablehlo.multiply %243, %243 : tensor<2x64x128xf32>
    %245 = stablehlo.multiply %244, %243 : tensor<2x64x128xf32>
    %cst_40 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %246 = stablehlo.broadcast_in_dim %cst_40, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %247 = stablehlo.multiply %246, %245 : tensor<2x64x128xf32>
    %248 = stablehlo.add %243, %247 : tensor<2x64x128xf32>
    %cst_41 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %249 = stablehlo.broadcast_in_dim %cst_41, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %250 = stablehlo.multiply %249, %248 : tensor<2x64x128xf32>
    %251 = stablehlo.tanh %250 : tensor<2x64x128xf32>
    %cst_42 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %252 = stablehlo.broadcast_in_dim %cst_42, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %253 = stablehlo.add %252, %251 : tensor<2x64x128xf32>
    %cst_43 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %254 = stablehlo.broadcast_in_dim %cst_43, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %255 = stablehlo.multiply %254, %253 : tensor<2x64x128xf32>
    %256 = stablehlo.multiply %243, %255 : tensor<2x64x128xf32>
    %257 = stablehlo.dot_general %256, %arg25, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
    %258 = stablehlo.reshape %arg24 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %259 = stablehlo.broadcast_in_dim %258, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %260 = stablehlo.add %257, %259 : tensor<2x64x32xf32>
    %261 = stablehlo.add %213, %260 : tensor<2x64x32xf32>
    %262 = stablehlo.iota dim = 0 : tensor<64xi32>
    %263 = stablehlo.broadcast_in_dim %262, dims = [1] : (tensor<64xi32>) -> tensor<2x64xi32>
    %264 = stablehlo.broadcast_in_dim %263, dims = [0, 1] : (tensor<2x64xi32>) -> tensor<2x64x1xi32>
    %265 = stablehlo.broadcast_in_dim %263, dims = [0, 2] : (tensor<2x64xi32>) -> tensor<2x1x64xi32>
    %266 = stablehlo.broadcast_in_dim %264, dims = [0, 1, 2] : (tensor<2x64x1xi32>) -> tensor<2x64x64xi32>
    %267 = stablehlo.broadcast_in_dim %265, dims = [0, 1, 2] : (tensor<2x1x64xi32>) -> tensor<2x64x64xi32>
    %268 = stablehlo.compare GE, %266, %267, SIGNED : (tensor<2x64x64xi32>, tensor<2x64x64xi32>) -> tensor<2x64x64xi1>
    %269 = stablehlo.broadcast_in_dim %268, dims = [0, 2, 3] : (tensor<2x64x64xi1>) -> tensor<2x1x64x64xi1>
    %270 = stablehlo.convert %269 : (tensor<2x1x64x64xi1>) -> tensor<2x1x64x64xf32>
    %271 = chlo.square %261 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_44 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %272 = stablehlo.reduce(%261 init: %cst_44) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_45 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %273 = stablehlo.broadcast_in_dim %cst_45, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %274 = stablehlo.divide %272, %273 : tensor<2x64xf32>
    %cst_46 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %275 = stablehlo.reduce(%271 init: %cst_46) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_47 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %276 = stablehlo.broadcast_in_dim %cst_47, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %277 = stablehlo.divide %275, %276 : tensor<2x64xf32>
    %278 = chlo.square %274 : tensor<2x64xf32> -> tensor<2x64xf32>
    %279 = stablehlo.subtract %277, %278 : tensor<2x64xf32>
    %cst_48 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %280 = stablehlo.broadcast_in_dim %cst_48, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %281 = stablehlo.maximum %280, %279 : tensor<2x64xf32>
    %282 = stablehlo.reshape %274 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %283 = stablehlo.reshape %281 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %284 = stablehlo.broadcast_in_dim %282, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %285 = stablehlo.subtract %261, %284 : tensor<2x64x32xf32>
    %cst_49 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %286 = stablehlo.broadcast_in_dim %cst_49, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %287 = stablehlo.add %283, %286 : tensor<2x64x1xf32>
    %288 = stablehlo.rsqrt %287 : tensor<2x64x1xf32>
    %289 = stablehlo.reshape %arg43 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %290 = stablehlo.broadcast_in_dim %288, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %291 = stablehlo.broadcast_in_dim %289, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %292 = stablehlo.multiply %290, %291 : tensor<2x64x32xf32>
    %293 = stablehlo.multiply %285, %292 : tensor<2x64x32xf32>
    %294 = stablehlo.reshape %arg42 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %295 = stablehlo.broadcast_in_dim %294, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %296 = stablehlo.add %293, %295 : tensor<2x64x32xf32>
    %297 = stablehlo.dot_general %296, %arg37, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %298 = stablehlo.reshape %arg36 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %299 = stablehlo.broadcast_in_dim %298, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %300 = stablehlo.add %297, %299 : tensor<2x64x4x8xf32>
    %301 = stablehlo.dot_general %296, %arg33, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %302 = stablehlo.reshape %arg32 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %303 = stablehlo.broadcast_in_dim %302, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %304 = stablehlo.add %301, %303 : tensor<2x64x4x8xf32>
    %305 = stablehlo.dot_general %296, %arg39, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x4x8xf32>) -> tensor<2x64x4x8xf32>
    %306 = stablehlo.reshape %arg38 : (tensor<4x8xf32>) -> tensor<1x1x4x8xf32>
    %307 = stablehlo.broadcast_in_dim %306, dims = [0, 1, 2, 3] : (tensor<1x1x4x8xf32>) -> tensor<2x64x4x8xf32>
    %308 = stablehlo.add %305, %307 : tensor<2x64x4x8xf32>
    %cst_50 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %309 = stablehlo.broadcast_in_dim %cst_50, dims = [] : (tensor<f32>) -> tensor<2x1x64x64xf32>
    %310 = stablehlo.compare NE, %270, %309, FLOAT : (tensor<2x1x64x64xf32>, tensor<2x1x64x64xf32>) -> tensor<2x1x64x64xi1>
    %311 = stablehlo.convert %310 : tensor<2x1x64x64xi1>
    %312 = stablehlo.reshape %300 : (tensor<2x64x4x8xf32>) -> tensor<2x64x4x1x8xf32>
    %313 = stablehlo.broadcast_in_dim %311, dims = [0, 1, 3, 4] : (tensor<2x1x64x64xi1>) -> tensor<2x1x1x64x64xi1>
    %314 = stablehlo.dot_general %312, %304, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x1x8xf32>, tensor<2x64x4x8xf32>) -> tensor<2x4x64x1x64xf32>
    %cst_51 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %315 = stablehlo.broadcast_in_dim %cst_51, dims = [] : (tensor<f32>) -> tensor<2x4x64x1x64xf32>
    %316 = stablehlo.multiply %314, %315 : tensor<2x4x64x1x64xf32>
    %c_52 = stablehlo.constant dense<true> : tensor<i1>
    %317 = stablehlo.broadcast_in_dim %c_52, dims = [] : (tensor<i1>) -> tensor<2x4x64x64xi1>
    %318 = stablehlo.broadcast_in_dim %317, dims = [1, 2, 3, 4] : (tensor<2x4x64x64xi1>) -> tensor<1x2x4x64x64xi1>
    %319 = stablehlo.transpose %313, dims = [2, 0, 1, 3, 4] : (tensor<2x1x1x64x64xi1>) -> tensor<1x2x1x64x64xi1>
    %320 = stablehlo.broadcast_in_dim %319, dims = [0, 1, 2, 3, 4] : (tensor<1x2x1x64x64xi1>) -> tensor<1x2x4x64x64xi1>
    %321 = stablehlo.and %318, %320 : tensor<1x2x4x64x64xi1>
    %cst_53 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %322 = call @_where_0(%321, %316, %cst_53) : (tensor<1x2x4x64x64xi1>, tensor<2x4x64x1x64xf32>, tensor<f32>) -> tensor<1x2x4x64x64xf32>
    %cst_54 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %323 = stablehlo.reduce(%322 init: %cst_54) applies stablehlo.maximum across dimensions = [4] : (tensor<1x2x4x64x64xf32>, tensor<f32>) -> tensor<1x2x4x64xf32>
    %cst_55 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %324 = stablehlo.broadcast_in_dim %cst_55, dims = [] : (tensor<f32>) -> tensor<1x2x4x64xf32>
    %325 = stablehlo.maximum %324, %323 : tensor<1x2x4x64xf32>
    %326 = stablehlo.broadcast_in_dim %325, dims = [0, 1, 2, 3] : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64x1xf32>
    %327 = stablehlo.broadcast_in_dim %326, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x64x1xf32>) -> tensor<1x2x4x64x64xf32>
    %328 = stablehlo.subtract %322, %327 : tensor<1x2x4x64x64xf32>
    %329 = stablehlo.exponential %328 : tensor<1x2x4x64x64xf32>
    %cst_56 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %330 = stablehlo.reduce(%329 init: %cst_56) applies stablehlo.add across dimensions = [4] : (tensor<1x2x4x64x64xf32>, tensor<f32>) -> tensor<1x2x4x64xf32>
    %331 = stablehlo.broadcast_in_dim %330, dims = [0, 1, 2, 3] : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64x1xf32>
    %332 = stablehlo.broadcast_in_dim %331, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x64x1xf32>) -> tensor<1x2x4x64x64xf32>
    %333 = stablehlo.divide %329, %332 : tensor<1x2x4x64x64xf32>
    %334 = stablehlo.dot_general %308, %333, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<1x2x4x64x64xf32>) -> tensor<2x4x8x1x64xf32>
    %335 = stablehlo.transpose %334, dims = [3, 0, 4, 1, 2] : (tensor<2x4x8x1x64xf32>) -> tensor<1x2x64x4x8xf32>
    %336 = stablehlo.transpose %335, dims = [1, 2, 3, 0, 4] : (tensor<1x2x64x4x8xf32>) -> tensor<2x64x4x1x8xf32>
    %337 = stablehlo.reshape %336 : (tensor<2x64x4x1x8xf32>) -> tensor<2x64x4x8xf32>
    %338 = stablehlo.dot_general %337, %arg35, contracting_dims = [2, 3] x [0, 1], precision = [DEFAULT, DEFAULT] : (tensor<2x64x4x8xf32>, tensor<4x8x32xf32>) -> tensor<2x64x32xf32>
    %339 = stablehlo.reshape %arg34 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %340 = stablehlo.broadcast_in_dim %339, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %341 = stablehlo.add %338, %340 : tensor<2x64x32xf32>
    %342 = stablehlo.add %261, %341 : tensor<2x64x32xf32>
    %343 = chlo.square %342 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_57 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %344 = stablehlo.reduce(%342 init: %cst_57) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_58 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %345 = stablehlo.broadcast_in_dim %cst_58, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %346 = stablehlo.divide %344, %345 : tensor<2x64xf32>
    %cst_59 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %347 = stablehlo.reduce(%343 init: %cst_59) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_60 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %348 = stablehlo.broadcast_in_dim %cst_60, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %349 = stablehlo.divide %347, %348 : tensor<2x64xf32>
    %350 = chlo.square %346 : tensor<2x64xf32> -> tensor<2x64xf32>
    %351 = stablehlo.subtract %349, %350 : tensor<2x64xf32>
    %cst_61 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %352 = stablehlo.broadcast_in_dim %cst_61, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %353 = stablehlo.maximum %352, %351 : tensor<2x64xf32>
    %354 = stablehlo.reshape %346 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %355 = stablehlo.reshape %353 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %356 = stablehlo.broadcast_in_dim %354, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %357 = stablehlo.subtract %342, %356 : tensor<2x64x32xf32>
    %cst_62 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %358 = stablehlo.broadcast_in_dim %cst_62, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %359 = stablehlo.add %355, %358 : tensor<2x64x1xf32>
    %360 = stablehlo.rsqrt %359 : tensor<2x64x1xf32>
    %361 = stablehlo.reshape %arg45 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %362 = stablehlo.broadcast_in_dim %360, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %363 = stablehlo.broadcast_in_dim %361, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %364 = stablehlo.multiply %362, %363 : tensor<2x64x32xf32>
    %365 = stablehlo.multiply %357, %364 : tensor<2x64x32xf32>
    %366 = stablehlo.reshape %arg44 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %367 = stablehlo.broadcast_in_dim %366, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %368 = stablehlo.add %365, %367 : tensor<2x64x32xf32>
    %369 = stablehlo.dot_general %368, %arg47, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x128xf32>) -> tensor<2x64x128xf32>
    %370 = stablehlo.reshape %arg46 : (tensor<128xf32>) -> tensor<1x1x128xf32>
    %371 = stablehlo.broadcast_in_dim %370, dims = [0, 1, 2] : (tensor<1x1x128xf32>) -> tensor<2x64x128xf32>
    %372 = stablehlo.add %369, %371 : tensor<2x64x128xf32>
    %373 = stablehlo.multiply %372, %372 : tensor<2x64x128xf32>
    %374 = stablehlo.multiply %373, %372 : tensor<2x64x128xf32>
    %cst_63 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %375 = stablehlo.broadcast_in_dim %cst_63, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %376 = stablehlo.multiply %375, %374 : tensor<2x64x128xf32>
    %377 = stablehlo.add %372, %376 : tensor<2x64x128xf32>
    %cst_64 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %378 = stablehlo.broadcast_in_dim %cst_64, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %379 = stablehlo.multiply %378, %377 : tensor<2x64x128xf32>
    %380 = stablehlo.tanh %379 : tensor<2x64x128xf32>
    %cst_65 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %381 = stablehlo.broadcast_in_dim %cst_65, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %382 = stablehlo.add %381, %380 : tensor<2x64x128xf32>
    %cst_66 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %383 = stablehlo.broadcast_in_dim %cst_66, dims = [] : (tensor<f32>) -> tensor<2x64x128xf32>
    %384 = stablehlo.multiply %383, %382 : tensor<2x64x128xf32>
    %385 = stablehlo.multiply %372, %384 : tensor<2x64x128xf32>
    %386 = stablehlo.dot_general %385, %arg41, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
    %387 = stablehlo.reshape %arg40 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %388 = stablehlo.broadcast_in_dim %387, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %389 = stablehlo.add %386, %388 : tensor<2x64x32xf32>
    %390 = stablehlo.add %342, %389 : tensor<2x64x32xf32>
    %391 = chlo.square %390 : tensor<2x64x32xf32> -> tensor<2x64x32xf32>
    %cst_67 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %392 = stablehlo.reduce(%390 init: %cst_67) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_68 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %393 = stablehlo.broadcast_in_dim %cst_68, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %394 = stablehlo.divide %392, %393 : tensor<2x64xf32>
    %cst_69 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %395 = stablehlo.reduce(%391 init: %cst_69) applies stablehlo.add across dimensions = [2] : (tensor<2x64x32xf32>, tensor<f32>) -> tensor<2x64xf32>
    %cst_70 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %396 = stablehlo.broadcast_in_dim %cst_70, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %397 = stablehlo.divide %395, %396 : tensor<2x64xf32>
    %398 = chlo.square %394 : tensor<2x64xf32> -> tensor<2x64xf32>
    %399 = stablehlo.subtract %397, %398 : tensor<2x64xf32>
    %cst_71 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %400 = stablehlo.broadcast_in_dim %cst_71, dims = [] : (tensor<f32>) -> tensor<2x64xf32>
    %401 = stablehlo.maximum %400, %399 : tensor<2x64xf32>
    %402 = stablehlo.reshape %394 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %403 = stablehlo.reshape %401 : (tensor<2x64xf32>) -> tensor<2x64x1xf32>
    %404 = stablehlo.broadcast_in_dim %402, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %405 = stablehlo.subtract %390, %404 : tensor<2x64x32xf32>
    %cst_72 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %406 = stablehlo.broadcast_in_dim %cst_72, dims = [] : (tensor<f32>) -> tensor<2x64x1xf32>
    %407 = stablehlo.add %403, %406 : tensor<2x64x1xf32>
    %408 = stablehlo.rsqrt %407 : tensor<2x64x1xf32>
    %409 = stablehlo.reshape %arg49 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %410 = stablehlo.broadcast_in_dim %408, dims = [0, 1, 2] : (tensor<2x64x1xf32>) -> tensor<2x64x32xf32>
    %411 = stablehlo.broadcast_in_dim %409, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %412 = stablehlo.multiply %410, %411 : tensor<2x64x32xf32>
    %413 = stablehlo.multiply %405, %412 : tensor<2x64x32xf32>
    %414 = stablehlo.reshape %arg48 : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %415 = stablehlo.broadcast_in_dim %414, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x64x32xf32>
    %416 = stablehlo.add %413, %415 : tensor<2x64x32xf32>
    %417 = stablehlo.transpose %arg51, dims = [1, 0] : (tensor<100x32xf32>) -> tensor<32x100xf32>
    %418 = stablehlo.dot_general %416, %417, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x64x32xf32>, tensor<32x100xf32>) -> tensor<2x64x100xf32>
    return %418, %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11, %arg12, %arg13, %arg14, %arg15, %arg16, %arg17, %arg18, %arg19, %arg20, %arg21, %arg22, %arg23, %arg24, %arg25, %arg26, %arg27, %arg28, %arg29, %arg30, %arg31, %arg32, %arg33, %arg34, %arg35, %arg36, %arg37, %arg38, %arg39, %arg40, %arg41, %arg42, %arg43, %arg44, %arg45, %arg46, %arg47, %arg48, %arg49, %arg50, %arg51 : tensor<2x64x100xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<32xf32>, tensor<4x8x32xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<128xf32>, tensor<32x128xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<32xf32>, tensor<4x8x32xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<128xf32>, tensor<32x128xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<32xf32>, tensor<4x8x32xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<4x8xf32>, tensor<32x4x8xf32>, tensor<32xf32>, tensor<128x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<128xf32>, tensor<32x128xf32>, tensor<32xf32>, tensor<32xf32>, tensor<64x32xf32>, tensor<100x32xf32>
  }
  func.func private @_take(%arg0: tensor<100x32xf32>, %arg1: tensor<2x64xi32>) -> tensor<2x64x32xf32> {
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
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xf32>, tensor<2x64x1xi32>) -> tensor<2x64x32xf32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [0, 1] : (tensor<2x64xi1>) -> tensor<2x64x32xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x64x32xf32>
    %16 = stablehlo.select %14, %13, %15 : tensor<2x64x32xi1>, tensor<2x64x32xf32>
    return %16 : tensor<2x64x32xf32>
  }
  func.func private @_where(%arg0: tensor<2x64xi1>, %arg1: tensor<2x64xi32>, %arg2: tensor<2x64xi32>) -> tensor<2x64xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2x64xi1>, tensor<2x64xi32>
    return %0 : tensor<2x64xi32>
  }
  func.func private @_where_0(%arg0: tensor<1x2x4x64x64xi1>, %arg1: tensor<2x4x64x1x64xf32>, %arg2: tensor<f32>) -> tensor<1x2x4x64x64xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x4x64x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<2x4x64x64xf32>) -> tensor<1x2x4x64x64xf32>
    %2 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<2x4x64x1x64xf32>) -> tensor<1x2x4x64x64xf32>
    %3 = stablehlo.select %arg0, %2, %1 : tensor<1x2x4x64x64xi1>, tensor<1x2x4x64x64xf32>
    return %3 : tensor<1x2x4x64x64xf32>
  }
}
