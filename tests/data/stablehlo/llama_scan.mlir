module @jit_llama_scan attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<100x32xbf16> loc("params['embedding']"), %arg1: tensor<32x100xbf16> loc("params['head']"), %arg2: tensor<3x32xbf16> loc("params['layers']['attention_norm']"), %arg3: tensor<3x48x32xbf16> loc("params['layers']['down']"), %arg4: tensor<3x32x48xbf16> loc("params['layers']['gate']"), %arg5: tensor<3x32x2x4xbf16> loc("params['layers']['k']"), %arg6: tensor<3x32xbf16> loc("params['layers']['mlp_norm']"), %arg7: tensor<3x8x4x32xbf16> loc("params['layers']['out']"), %arg8: tensor<3x32x8x4xbf16> loc("params['layers']['q']"), %arg9: tensor<3x32x48xbf16> loc("params['layers']['up']"), %arg10: tensor<3x32x2x4xbf16> loc("params['layers']['v']"), %arg11: tensor<32xbf16> loc("params['norm']"), %arg12: tensor<2x16xi32> loc("tokens")) -> (tensor<2x16x100xbf16> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x16xi32>
    %1 = stablehlo.compare LT, %arg12, %0, SIGNED : (tensor<2x16xi32>, tensor<2x16xi32>) -> tensor<2x16xi1>
    %c_0 = stablehlo.constant dense<100> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x16xi32>
    %3 = stablehlo.add %arg12, %2 : tensor<2x16xi32>
    %4 = stablehlo.select %1, %3, %arg12 : tensor<2x16xi1>, tensor<2x16xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<100x32xbf16>, tensor<2x16x1xi32>) -> tensor<2x16x32xbf16>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7:11 = stablehlo.while(%iterArg = %arg2, %iterArg_4 = %arg3, %iterArg_5 = %arg4, %iterArg_6 = %arg5, %iterArg_7 = %arg6, %iterArg_8 = %arg7, %iterArg_9 = %arg8, %iterArg_10 = %arg9, %iterArg_11 = %arg10, %iterArg_12 = %c_1, %iterArg_13 = %6) : tensor<3x32xbf16>, tensor<3x48x32xbf16>, tensor<3x32x48xbf16>, tensor<3x32x2x4xbf16>, tensor<3x32xbf16>, tensor<3x8x4x32xbf16>, tensor<3x32x8x4xbf16>, tensor<3x32x48xbf16>, tensor<3x32x2x4xbf16>, tensor<i32>, tensor<2x16x32xbf16>
    cond {
      %c_14 = stablehlo.constant dense<3> : tensor<i32>
      %24 = stablehlo.compare LT, %iterArg_12, %c_14, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %24 : tensor<i1>
    } do {
      %24 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_12) : (tensor<3x32xbf16>, tensor<i32>) -> tensor<32xbf16>
      %25 = func.call @dynamic_index_in_dim_0(%iterArg_4, %iterArg_12) : (tensor<3x48x32xbf16>, tensor<i32>) -> tensor<48x32xbf16>
      %26 = func.call @dynamic_index_in_dim_1(%iterArg_5, %iterArg_12) : (tensor<3x32x48xbf16>, tensor<i32>) -> tensor<32x48xbf16>
      %27 = func.call @dynamic_index_in_dim_2(%iterArg_6, %iterArg_12) : (tensor<3x32x2x4xbf16>, tensor<i32>) -> tensor<32x2x4xbf16>
      %28 = func.call @dynamic_index_in_dim(%iterArg_7, %iterArg_12) : (tensor<3x32xbf16>, tensor<i32>) -> tensor<32xbf16>
      %29 = func.call @dynamic_index_in_dim_3(%iterArg_8, %iterArg_12) : (tensor<3x8x4x32xbf16>, tensor<i32>) -> tensor<8x4x32xbf16>
      %30 = func.call @dynamic_index_in_dim_4(%iterArg_9, %iterArg_12) : (tensor<3x32x8x4xbf16>, tensor<i32>) -> tensor<32x8x4xbf16>
      %31 = func.call @dynamic_index_in_dim_1(%iterArg_10, %iterArg_12) : (tensor<3x32x48xbf16>, tensor<i32>) -> tensor<32x48xbf16>
      %32 = func.call @dynamic_index_in_dim_2(%iterArg_11, %iterArg_12) : (tensor<3x32x2x4xbf16>, tensor<i32>) -> tensor<32x2x4xbf16>
      %33 = func.call @closed_call(%iterArg_13, %24, %25, %26, %27, %28, %29, %30, %31, %32) : (tensor<2x16x32xbf16>, tensor<32xbf16>, tensor<48x32xbf16>, tensor<32x48xbf16>, tensor<32x2x4xbf16>, tensor<32xbf16>, tensor<8x4x32xbf16>, tensor<32x8x4xbf16>, tensor<32x48xbf16>, tensor<32x2x4xbf16>) -> tensor<2x16x32xbf16>
      %c_14 = stablehlo.constant dense<1> : tensor<i32>
      %34 = stablehlo.add %iterArg_12, %c_14 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11, %34, %33 : tensor<3x32xbf16>, tensor<3x48x32xbf16>, tensor<3x32x48xbf16>, tensor<3x32x2x4xbf16>, tensor<3x32xbf16>, tensor<3x8x4x32xbf16>, tensor<3x32x8x4xbf16>, tensor<3x32x48xbf16>, tensor<3x32x2x4xbf16>, tensor<i32>, tensor<2x16x32xbf16>
    }
    %8 = stablehlo.convert %7#10 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %9 = stablehlo.multiply %8, %8 : tensor<2x16x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_2 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %13 = stablehlo.divide %11, %12 : tensor<2x16x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %15 = stablehlo.add %13, %14 : tensor<2x16x1xf32>
    %16 = stablehlo.rsqrt %15 : tensor<2x16x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %18 = stablehlo.multiply %8, %17 : tensor<2x16x32xf32>
    %19 = stablehlo.convert %18 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %20 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x16x32xbf16>
    %22 = stablehlo.multiply %19, %21 : tensor<2x16x32xbf16>
    %23 = stablehlo.dot_general %22, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x100xbf16>) -> tensor<2x16x100xbf16>
    return %23 : tensor<2x16x100xbf16>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x32xbf16>, %arg1: tensor<i32>) -> tensor<32xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 32] : (tensor<3x32xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x32xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x32xbf16>) -> tensor<32xbf16>
    return %1 : tensor<32xbf16>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<3x48x32xbf16>, %arg1: tensor<i32>) -> tensor<48x32xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 48, 32] : (tensor<3x48x32xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x48x32xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x48x32xbf16>) -> tensor<48x32xbf16>
    return %1 : tensor<48x32xbf16>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<3x32x48xbf16>, %arg1: tensor<i32>) -> tensor<32x48xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 32, 48] : (tensor<3x32x48xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x48xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x32x48xbf16>) -> tensor<32x48xbf16>
    return %1 : tensor<32x48xbf16>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<3x32x2x4xbf16>, %arg1: tensor<i32>) -> tensor<32x2x4xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 32, 2, 4] : (tensor<3x32x2x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x2x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x32x2x4xbf16>) -> tensor<32x2x4xbf16>
    return %1 : tensor<32x2x4xbf16>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<3x8x4x32xbf16>, %arg1: tensor<i32>) -> tensor<8x4x32xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 8, 4, 32] : (tensor<3x8x4x32xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x4x32xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x8x4x32xbf16>) -> tensor<8x4x32xbf16>
    return %1 : tensor<8x4x32xbf16>
  }
  func.func private @dynamic_index_in_dim_4(%arg0: tensor<3x32x8x4xbf16>, %arg1: tensor<i32>) -> tensor<32x8x4xbf16> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 32, 8, 4] : (tensor<3x32x8x4xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x8x4xbf16>
    %1 = stablehlo.reshape %0 : (tensor<1x32x8x4xbf16>) -> tensor<32x8x4xbf16>
    return %1 : tensor<32x8x4xbf16>
  }
  func.func private @closed_call(%arg0: tensor<2x16x32xbf16>, %arg1: tensor<32xbf16>, %arg2: tensor<48x32xbf16>, %arg3: tensor<32x48xbf16>, %arg4: tensor<32x2x4xbf16>, %arg5: tensor<32xbf16>, %arg6: tensor<8x4x32xbf16>, %arg7: tensor<32x8x4xbf16>, %arg8: tensor<32x48xbf16>, %arg9: tensor<32x2x4xbf16>) -> tensor<2x16x32xbf16> {
    %0 = stablehlo.convert %arg0 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<2x16x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<2x16x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<2x16x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<2x16x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %10 = stablehlo.multiply %0, %9 : tensor<2x16x32xf32>
    %11 = stablehlo.convert %10 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %12 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x16x32xbf16>
    %14 = stablehlo.multiply %11, %13 : tensor<2x16x32xbf16>
    %15 = stablehlo.dot_general %14, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x8x4xbf16>) -> tensor<2x16x8x4xbf16>
    %16 = stablehlo.dot_general %14, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x2x4xbf16>) -> tensor<2x16x2x4xbf16>
    %17 = stablehlo.dot_general %14, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x2x4xbf16>) -> tensor<2x16x2x4xbf16>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %18 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %19 = call @tril(%18) : (tensor<16x16xi1>) -> tensor<16x16xi1>
    %20 = stablehlo.iota dim = 0 : tensor<16xi32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %22 = stablehlo.iota dim = 0 : tensor<2xi32>
    %c_2 = stablehlo.constant dense<2> : tensor<i32>
    %23 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %24 = stablehlo.multiply %22, %23 : tensor<2xi32>
    %25 = stablehlo.convert %24 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_3 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %27 = stablehlo.divide %25, %26 : tensor<2xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %29 = stablehlo.power %28, %27 : tensor<2xf32>
    %30 = stablehlo.convert %21 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %31 = stablehlo.broadcast_in_dim %29, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %32 = stablehlo.broadcast_in_dim %30, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x2xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<16x2xf32>
    %34 = stablehlo.divide %32, %33 : tensor<16x2xf32>
    %35 = stablehlo.cosine %34 : tensor<16x2xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [1, 3] : (tensor<16x2xf32>) -> tensor<1x16x1x2xf32>
    %37 = stablehlo.convert %36 : (tensor<1x16x1x2xf32>) -> tensor<1x16x1x2xbf16>
    %38 = stablehlo.sine %34 : tensor<16x2xf32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [1, 3] : (tensor<16x2xf32>) -> tensor<1x16x1x2xf32>
    %40 = stablehlo.convert %39 : (tensor<1x16x1x2xf32>) -> tensor<1x16x1x2xbf16>
    %41 = stablehlo.slice %15 [0:2, 0:16, 0:8, 0:2] : (tensor<2x16x8x4xbf16>) -> tensor<2x16x8x2xbf16>
    %42 = stablehlo.slice %15 [0:2, 0:16, 0:8, 2:4] : (tensor<2x16x8x4xbf16>) -> tensor<2x16x8x2xbf16>
    %43 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x8x2xbf16>
    %44 = stablehlo.multiply %41, %43 : tensor<2x16x8x2xbf16>
    %45 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x8x2xbf16>
    %46 = stablehlo.multiply %42, %45 : tensor<2x16x8x2xbf16>
    %47 = stablehlo.subtract %44, %46 : tensor<2x16x8x2xbf16>
    %48 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x8x2xbf16>
    %49 = stablehlo.multiply %42, %48 : tensor<2x16x8x2xbf16>
    %50 = stablehlo.broadcast_in_dim %40, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x8x2xbf16>
    %51 = stablehlo.multiply %41, %50 : tensor<2x16x8x2xbf16>
    %52 = stablehlo.add %49, %51 : tensor<2x16x8x2xbf16>
    %53 = stablehlo.concatenate %47, %52, dim = 3 : (tensor<2x16x8x2xbf16>, tensor<2x16x8x2xbf16>) -> tensor<2x16x8x4xbf16>
    %54 = stablehlo.iota dim = 0 : tensor<16xi32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0] : (tensor<16xi32>) -> tensor<16x1xi32>
    %56 = stablehlo.iota dim = 0 : tensor<2xi32>
    %c_5 = stablehlo.constant dense<2> : tensor<i32>
    %57 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %58 = stablehlo.multiply %56, %57 : tensor<2xi32>
    %59 = stablehlo.convert %58 : (tensor<2xi32>) -> tensor<2xf32>
    %cst_6 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %61 = stablehlo.divide %59, %60 : tensor<2xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %62 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %63 = stablehlo.power %62, %61 : tensor<2xf32>
    %64 = stablehlo.convert %55 : (tensor<16x1xi32>) -> tensor<16x1xf32>
    %65 = stablehlo.broadcast_in_dim %63, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>
    %66 = stablehlo.broadcast_in_dim %64, dims = [0, 1] : (tensor<16x1xf32>) -> tensor<16x2xf32>
    %67 = stablehlo.broadcast_in_dim %65, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<16x2xf32>
    %68 = stablehlo.divide %66, %67 : tensor<16x2xf32>
    %69 = stablehlo.cosine %68 : tensor<16x2xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [1, 3] : (tensor<16x2xf32>) -> tensor<1x16x1x2xf32>
    %71 = stablehlo.convert %70 : (tensor<1x16x1x2xf32>) -> tensor<1x16x1x2xbf16>
    %72 = stablehlo.sine %68 : tensor<16x2xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [1, 3] : (tensor<16x2xf32>) -> tensor<1x16x1x2xf32>
    %74 = stablehlo.convert %73 : (tensor<1x16x1x2xf32>) -> tensor<1x16x1x2xbf16>
    %75 = stablehlo.slice %16 [0:2, 0:16, 0:2, 0:2] : (tensor<2x16x2x4xbf16>) -> tensor<2x16x2x2xbf16>
    %76 = stablehlo.slice %16 [0:2, 0:16, 0:2, 2:4] : (tensor<2x16x2x4xbf16>) -> tensor<2x16x2x2xbf16>
    %77 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x2x2xbf16>
    %78 = stablehlo.multiply %75, %77 : tensor<2x16x2x2xbf16>
    %79 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x2x2xbf16>
    %80 = stablehlo.multiply %76, %79 : tensor<2x16x2x2xbf16>
    %81 = stablehlo.subtract %78, %80 : tensor<2x16x2x2xbf16>
    %82 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x2x2xbf16>
    %83 = stablehlo.multiply %76, %82 : tensor<2x16x2x2xbf16>
    %84 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2, 3] : (tensor<1x16x1x2xbf16>) -> tensor<2x16x2x2xbf16>
    %85 = stablehlo.multiply %75, %84 : tensor<2x16x2x2xbf16>
    %86 = stablehlo.add %83, %85 : tensor<2x16x2x2xbf16>
    %87 = stablehlo.concatenate %81, %86, dim = 3 : (tensor<2x16x2x2xbf16>, tensor<2x16x2x2xbf16>) -> tensor<2x16x2x4xbf16>
    %88 = stablehlo.reshape %53 : (tensor<2x16x8x4xbf16>) -> tensor<2x16x2x4x4xbf16>
    %89 = stablehlo.dot_general %87, %88, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x16x2x4xbf16>, tensor<2x16x2x4x4xbf16>) -> tensor<2x2x16x16x4xbf16>
    %90 = stablehlo.transpose %89, dims = [0, 1, 4, 3, 2] : (tensor<2x2x16x16x4xbf16>) -> tensor<2x2x4x16x16xbf16>
    %91 = stablehlo.convert %90 : (tensor<2x2x4x16x16xbf16>) -> tensor<2x2x4x16x16xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %92 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<2x2x4x16x16xf32>
    %93 = stablehlo.multiply %91, %92 : tensor<2x2x4x16x16xf32>
    %cst_9 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %94 = call @_where(%19, %93, %cst_9) : (tensor<16x16xi1>, tensor<2x2x4x16x16xf32>, tensor<f32>) -> tensor<2x2x4x16x16xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_10) applies stablehlo.maximum across dimensions = [4] : (tensor<2x2x4x16x16xf32>, tensor<f32>) -> tensor<2x2x4x16xf32>
    %cst_11 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x2x4x16xf32>
    %97 = stablehlo.maximum %96, %95 : tensor<2x2x4x16xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2, 3] : (tensor<2x2x4x16xf32>) -> tensor<2x2x4x16x1xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2, 3, 4] : (tensor<2x2x4x16x1xf32>) -> tensor<2x2x4x16x16xf32>
    %100 = stablehlo.subtract %94, %99 : tensor<2x2x4x16x16xf32>
    %101 = stablehlo.exponential %100 : tensor<2x2x4x16x16xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %102 = stablehlo.reduce(%101 init: %cst_12) applies stablehlo.add across dimensions = [4] : (tensor<2x2x4x16x16xf32>, tensor<f32>) -> tensor<2x2x4x16xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<2x2x4x16xf32>) -> tensor<2x2x4x16x1xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3, 4] : (tensor<2x2x4x16x1xf32>) -> tensor<2x2x4x16x16xf32>
    %105 = stablehlo.divide %101, %104 : tensor<2x2x4x16x16xf32>
    %106 = stablehlo.convert %105 : (tensor<2x2x4x16x16xf32>) -> tensor<2x2x4x16x16xbf16>
    %107 = stablehlo.dot_general %17, %106, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x16x2x4xbf16>, tensor<2x2x4x16x16xbf16>) -> tensor<2x2x4x4x16xbf16>
    %108 = stablehlo.transpose %107, dims = [0, 4, 1, 3, 2] : (tensor<2x2x4x4x16xbf16>) -> tensor<2x16x2x4x4xbf16>
    %109 = stablehlo.reshape %108 : (tensor<2x16x2x4x4xbf16>) -> tensor<2x16x8x4xbf16>
    %110 = stablehlo.dot_general %109, %arg6, contracting_dims = [3, 2] x [1, 0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x8x4xbf16>, tensor<8x4x32xbf16>) -> tensor<2x16x32xbf16>
    %111 = stablehlo.add %arg0, %110 : tensor<2x16x32xbf16>
    %112 = stablehlo.convert %111 : (tensor<2x16x32xbf16>) -> tensor<2x16x32xf32>
    %113 = stablehlo.multiply %112, %112 : tensor<2x16x32xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %114 = stablehlo.reduce(%113 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf32>, tensor<f32>) -> tensor<2x16xf32>
    %115 = stablehlo.broadcast_in_dim %114, dims = [0, 1] : (tensor<2x16xf32>) -> tensor<2x16x1xf32>
    %cst_14 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %116 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %117 = stablehlo.divide %115, %116 : tensor<2x16x1xf32>
    %cst_15 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %118 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<2x16x1xf32>
    %119 = stablehlo.add %117, %118 : tensor<2x16x1xf32>
    %120 = stablehlo.rsqrt %119 : tensor<2x16x1xf32>
    %121 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2] : (tensor<2x16x1xf32>) -> tensor<2x16x32xf32>
    %122 = stablehlo.multiply %112, %121 : tensor<2x16x32xf32>
    %123 = stablehlo.convert %122 : (tensor<2x16x32xf32>) -> tensor<2x16x32xbf16>
    %124 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<32xbf16>) -> tensor<1x1x32xbf16>
    %125 = stablehlo.broadcast_in_dim %124, dims = [0, 1, 2] : (tensor<1x1x32xbf16>) -> tensor<2x16x32xbf16>
    %126 = stablehlo.multiply %123, %125 : tensor<2x16x32xbf16>
    %127 = stablehlo.dot_general %126, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x48xbf16>) -> tensor<2x16x48xbf16>
    %128 = call @silu(%127) : (tensor<2x16x48xbf16>) -> tensor<2x16x48xbf16>
    %129 = stablehlo.dot_general %126, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xbf16>, tensor<32x48xbf16>) -> tensor<2x16x48xbf16>
    %130 = stablehlo.multiply %128, %129 : tensor<2x16x48xbf16>
    %131 = stablehlo.dot_general %130, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x48xbf16>, tensor<48x32xbf16>) -> tensor<2x16x32xbf16>
    %132 = stablehlo.add %111, %131 : tensor<2x16x32xbf16>
    return %132 : tensor<2x16x32xbf16>
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
  func.func private @_where(%arg0: tensor<16x16xi1>, %arg1: tensor<2x2x4x16x16xf32>, %arg2: tensor<f32>) -> tensor<2x2x4x16x16xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3, 4] : (tensor<16x16xi1>) -> tensor<2x2x4x16x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x2x4x16x16xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x2x4x16x16xi1>, tensor<2x2x4x16x16xf32>
    return %3 : tensor<2x2x4x16x16xf32>
  }
  func.func private @silu(%arg0: tensor<2x16x48xbf16>) -> tensor<2x16x48xbf16> {
    %0 = stablehlo.negate %arg0 : tensor<2x16x48xbf16>
    %1 = stablehlo.exponential %0 : tensor<2x16x48xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<2x16x48xbf16>
    %3 = stablehlo.add %2, %1 : tensor<2x16x48xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<2x16x48xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<2x16x48xbf16>
    %6 = stablehlo.multiply %arg0, %5 : tensor<2x16x48xbf16>
    return %6 : tensor<2x16x48xbf16>
  }
}
